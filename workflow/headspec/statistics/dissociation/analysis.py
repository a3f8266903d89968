"""Tables of dissociation: by run, combined over seeds, at every fraction, and averaged over fractions."""

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.config.values import MEAN
from headspec.processes import map_in_processes
from headspec.seeds import derive
from headspec.statistics.dissociation.matrices import resample_matrices
from headspec.statistics.dissociation.parts import (
    FEWEST_TASKS,
    agreements,
    fragility,
    least_p,
    mean_matrix,
    p_specific,
    parts_of,
)
from headspec.statistics.dissociation.pruned import PrunedPredictions, by_mixture
from headspec.statistics.dissociation.resampled import (
    ResampledDissociation,
    combine,
)
from headspec.statistics.dissociation.scores import CHANCE, case, is_distinct
from headspec.statistics.intervals import TESTED, corrected
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

#: key columns that tables share
KEY = ("model", "mixture", "method")
#: the table of agreement between models, and the fragilities that it is made from
SHARED, PROFILES = "shared_fragility", "profiles"
RUN = dict.fromkeys(KEY, TEXT) | {"seed": INT}
COMBINED_KEY = dict.fromkeys(KEY, TEXT) | {"task": TEXT, "n_seeds": INT}
# ci_over: what the interval covers, "examples" (one or two seeds) or "seeds and examples"
INTERVAL = {"ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT}
UNPRUNED = {"unpruned_at_chance": FLAG, "below_chance": FLAG}
NET = dict.fromkeys(("net", "net_low", "net_high"), FLOAT)
SCHEMAS = {
    "dissociation": Schema(
        RUN | {"fraction": FLOAT, "task": TEXT, "dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT,
               "p_value": FLOAT, "at_chance": FLAG, "p_holm": FLOAT, "metric": TEXT, "base": FLOAT}
        | {"chance": FLOAT} | UNPRUNED,
        keys=6,
        paths=("tables/dissociation.parquet", "tables/iat_dissociation.parquet"),
    ),
    "mixtures": Schema(
        RUN | {"mean_dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "case": TEXT,
               "distinct": FLAG, "at_chance": FLAG} | UNPRUNED,
        keys=4,
        paths=("tables/mixtures.parquet", "tables/iat_mixtures.parquet"),
        about={
            "mean_dissociation": "mean D over tasks, at the main fraction",
        },
    ),
    # combined over seeds, at the main fraction; task "mean" is the mean over the mixture's tasks
    "combined": Schema(
        COMBINED_KEY | {"fraction": FLOAT, "dissociation": FLOAT} | INTERVAL
        | TESTED | NET | {"at_chance": FLAG, "case": TEXT, "distinct": FLAG}
        | {"p_specific": FLOAT, "specific": FLAG} | UNPRUNED,
        keys=4,
        row="mixture and task, at the main fraction",
        paths=("tables/combined.parquet", "tables/iat_combined.parquet"),
    ),
    # combined over seeds, at every fraction
    "fractions": Schema(
        dict.fromkeys(KEY, TEXT) | {"task": TEXT, "fraction": FLOAT, "n_seeds": INT, "dissociation": FLOAT}
        | INTERVAL | {"p_value": FLOAT, "p_seeds": FLOAT, "at_chance": FLAG} | UNPRUNED,
        keys=5,
        paths=("tables/fractions.parquet", "tables/iat_fractions.parquet"),
    ),
    # what the mean matrix over seeds is made of, at every fraction
    "matrix_parts": Schema(
        dict.fromkeys(KEY, TEXT) | {"fraction": FLOAT, "part": TEXT, "n_seeds": INT, "share": FLOAT,
        "by_chance": FLOAT, "p_value": FLOAT, "p_holm": FLOAT, "unpruned_at_chance": FLAG},
        keys=5,
        row="mixture, fraction and part of its pruning matrix",
        paths=("tables/matrix_parts.parquet", "tables/iat_matrix_parts.parquet"),
        about={
            "part": "`source`, how much lists of heads differ in strength; `target`, how much tasks differ "
            "in fragility; `own`, what lists cost their own task more, or less; `rest`",
            "share": "of the sum of squares of relative performance, averaged over seeds",
            "by_chance": "the share that the part would have if it were nothing",
        },
    ),
    # whether what makes a task fragile in one model does so in another, at every fraction
    "shared_fragility": Schema(
        {"mixture": TEXT, "method": TEXT, "fraction": FLOAT, "models": TEXT, "n_models": INT, "r": FLOAT,
        "r2": FLOAT, "p_value": FLOAT, "p_holm": FLOAT, "unpruned_at_chance": FLAG},
        keys=4,
        row="mixture, fraction and models, of mixtures with three tasks or more",
        paths=("tables/shared_fragility.parquet", "tables/iat_shared_fragility.parquet"),
        about={
            "models": "two models, or all of three or more",
            "n_models": "their number",
            "r": "correlation over tasks of what lists of other tasks cost them, net of the strength of "
            "lists; of all models the mean over pairs",
            "r2": "its square",
            "p_value": "one-sided, tasks renamed",
        },
    ),
    # area: mean dissociation over fractions, from 0 to the largest
    "areas": Schema(
        COMBINED_KEY | {"area": FLOAT} | INTERVAL | TESTED | UNPRUNED,
        keys=4,
        row="mixture and task, over all fractions",
        paths=("tables/areas.parquet", "tables/iat_areas.parquet"),
    ),
}  # fmt: skip


def task_rows(
    sampled: ResampledDissociation, tasks: Sequence[str], confidence: float
) -> list[dict[str, Any]]:
    """Return a row for each of `tasks`, of which there are as many as in `sampled`."""
    low, high, over = sampled.interval(confidence)
    net_low, net_high, _ = sampled.net_interval(confidence)
    columns = {
        "task": tasks, "base": sampled.base, "chance": sampled.chance, "dissociation": sampled.mean,
        "ci_low": low, "ci_high": high, "p_value": sampled.p_value, "p_seeds": sampled.p_seeds,
        "net": sampled.net.mean(axis=0), "net_low": net_low, "net_high": net_high,
        "at_chance": sampled.at_chance, "unpruned_at_chance": sampled.unpruned_at_chance,
        "below_chance": sampled.below_chance,
    }  # fmt: skip
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row | {"ci_over": over} for row in rows]


def case_columns(sampled: ResampledDissociation, confidence: float, distinct: float) -> dict[str, Any]:
    """Return the case of a mixture, `CHANCE` if an unpruned model is, and whether it is distinct."""
    (*low, mean), (*high, _), _ = sampled.with_mean().interval(confidence)
    lowest, highest, _ = sampled.interval(1 - (1 - confidence) / sampled.d.shape[-1])  # Bonferroni
    learnt = not sampled.unpruned_at_chance.any()
    kind = case(sampled.mean, (low, high), (lowest, highest), mean) if learnt else CHANCE
    return {"case": kind, "distinct": is_distinct(kind, float(sampled.mean.mean()), distinct)}


def rows_and_case(
    sampled: ResampledDissociation, tasks: Sequence[str], confidence: float, distinct: float, p: float
) -> list[dict[str, Any]]:
    """Return a row for each task, and one for their mean, which has the case and the verdict `specific`.

    `p` is `p_specific` of the mean matrix. Lists are specific if it is small and the interval of mean D lies
    above 0. There is no verdict if no p of so few tasks is small enough, an unpruned model is at chance, or
    `p` is nan.
    """
    rows = task_rows(sampled.with_mean(), (*tasks, MEAN), confidence)
    mean = rows[-1]
    mean |= case_columns(sampled, confidence, distinct) | {"p_specific": p, "specific": None}
    if least_p(len(tasks)) <= 1 - confidence and mean["case"] != CHANCE and np.isfinite(p):
        mean["specific"] = bool(p <= 1 - confidence and mean["ci_low"] > 0)
    return rows


def dissociation_tables(
    evaluations: Iterable[PrunedPredictions],
    resamples: int,
    confidence: float,
    distinct: float,
    fraction: float,
    seed: int,
    processes: int = 1,
) -> dict[str, pd.DataFrame]:
    """Return tables of the dissociation of every run of a study, and of that combined over seeds.

    Rows of task 'mean' are means over the tasks of a mixture; they are at_chance if any task is, and the case
    is `CHANCE` if an unpruned model is. Raises DataError if predictions are missing, or seeds differ in
    examples. The tables are

    - 'dissociation': every run, task and fraction; p_holm corrects over the rows of a fraction
    - 'mixtures': the mean of every run, at the main fraction
    - 'combined': over seeds, at the main fraction; p_holm corrects over means, separately over other rows
    - 'fractions': over seeds, at every fraction
    - 'matrix_parts': of the mean matrix over seeds, at every fraction, p_holm over the rows of one and a part
    - 'shared_fragility': whether the same tasks are fragile in several models, at every fraction, p_holm over
      the rows of one
    - 'areas': over seeds, mean over fractions (see `ResampledDissociation.area`), p_holm as in 'combined';
      empty for a single fraction

    Parameters
    ----------
    evaluations : runs of at least two tasks each; those of a model and mixture are adjacent, and so are their
        seeds (else ValueError); only their predictions are in memory at a time, for `processes` of them
    resamples : number of bootstrap samples, and of permutations
    confidence : level of the intervals, and of at_chance
    distinct : smallest mean at which a double dissociation is distinct
    fraction : main fraction of heads to prune; D is computed at all fractions of the predictions
    seed : draws also depend on the names of model, mixture and task: a run's results do not depend on other
        runs, except for p_holm
    processes : results are the same with any number
    """
    tables = functools.partial(
        _mixture_tables, fraction=fraction, resamples=resamples, confidence=confidence, distinct=distinct,
        seed=seed,
    )  # fmt: skip
    parts = list(map_in_processes(tables, by_mixture(evaluations), processes))
    result = {
        name: pd.concat([part[name] for part in parts], ignore_index=True)
        if parts
        else pd.DataFrame(columns=_columns(name))
        for name in (*SCHEMAS, PROFILES)
        if name != SHARED
    }
    result[SHARED] = _shared_fragility(result.pop(PROFILES), seed)
    combined = result["combined"]
    if combined.duplicated([*KEY, "task"]).any():
        raise ValueError("runs of a model and mixture, or their seeds, are apart")
    of_matrices = result["matrix_parts"]
    result["matrix_parts"] = corrected(of_matrices, [of_matrices["fraction"], of_matrices["part"]])
    families = {"dissociation": "fraction", "combined": "task", "areas": "task"}
    for name, column in families.items():
        family = result[name][column] if column == "fraction" else result[name][column] == MEAN
        result[name] = corrected(result[name], family)
    return result


def _mixture_tables(
    evaluations: list[PrunedPredictions],
    fraction: float,
    resamples: int,
    confidence: float,
    distinct: float,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Return the tables of the runs of one model and mixture, without p_holm."""
    every = sorted({fraction, *evaluations[0].read()["fraction"]} - {0.0})
    main = every.index(fraction)
    table_rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in (*SCHEMAS, PROFILES) if name != SHARED
    }
    matrices = resample_matrices(evaluations, every, resamples, confidence, seed)
    runs = [ResampledDissociation.of_matrix(matrix) for matrix in matrices]
    run, metrics = evaluations[0].run, evaluations[0].metrics
    tasks = (*run.tasks, MEAN)
    for sampled in runs:
        fields = {name: getattr(sampled.run, name) for name in (*KEY, "seed")}
        for i, level in enumerate(every):
            for row in task_rows(sampled.at(i), run.tasks, confidence):
                columns = {"fraction": level, "metric": metrics[row["task"]]}
                table_rows["dissociation"].append(fields | columns | row)
        (mean,) = task_rows(sampled.at(main).with_mean(), tasks, confidence)[-1:]
        kind = case_columns(sampled.at(main), confidence, distinct)
        table_rows["mixtures"].append(fields | mean | kind | {"mean_dissociation": mean["dissociation"]})
    for _, group in itertools.groupby(zip(matrices, runs, strict=True), lambda pair: pair[0].run.method):
        of_seeds, seeds = zip(*group, strict=True)
        combined = combine(seeds)
        fields = {name: getattr(seeds[0].run, name) for name in KEY} | {"n_seeds": len(seeds)}
        learnt = {"unpruned_at_chance": bool(combined.unpruned_at_chance.any())}
        for i, level in enumerate(every):
            rows = task_rows(combined.at(i).with_mean(), tasks, confidence)
            table_rows["fractions"] += [fields | {"fraction": level} | row for row in rows]
            parts = parts_of(of_seeds, i, derive(seed, "parts", run.mixture))
            table_rows["matrix_parts"] += [fields | learnt | {"fraction": level} | row for row in parts]
            profile = {"tasks": run.tasks, "fragility": fragility(mean_matrix(of_seeds, i))}
            table_rows[PROFILES].append(fields | learnt | {"fraction": level} | profile)
        p = p_specific(mean_matrix(of_seeds, main), derive(seed, "parts", run.mixture))
        rows = rows_and_case(combined.at(main), run.tasks, confidence, distinct, p)
        table_rows["combined"] += [fields | {"fraction": fraction} | row for row in rows]
        if len(every) > 1:
            rows = task_rows(combined.area(every).with_mean(), tasks, confidence)
            table_rows["areas"] += [fields | row | {"area": row["dissociation"]} for row in rows]
    return {name: pd.DataFrame(rows, columns=_columns(name)) for name, rows in table_rows.items()}


def _columns(name: str) -> list[str]:
    """Return the columns of a table."""
    of_profiles = [*KEY, "fraction", "tasks", "fragility", "unpruned_at_chance"]
    return of_profiles if name == PROFILES else list(SCHEMAS[name].columns)


def _shared_fragility(profiles: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the table 'shared_fragility' of fragilities (k,) of each model, mixture, method and fraction."""
    rows: list[dict[str, Any]] = []
    keys = ["mixture", "method", "fraction", "tasks"]
    several = profiles[profiles["tasks"].map(len) >= FEWEST_TASKS]
    for key, group in several.groupby(keys, sort=False):
        by_model = dict(zip(group["model"], group["fragility"], strict=True))
        fields = dict(zip(keys, key, strict=True)) | {"unpruned_at_chance": group["unpruned_at_chance"].any()}
        drawn = derive(seed, "fragility", str(fields["mixture"]))
        rows += [fields | row for row in agreements(by_model, drawn)]
    table = pd.DataFrame(rows, columns=_columns(SHARED))
    return corrected(table, table["fraction"])
