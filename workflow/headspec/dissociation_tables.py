"""The tables of dissociation: of every run, of seeds combined, at every fraction, and over all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from headspec.dissociation import case, is_distinct
from headspec.resampled import Evaluation, Sampled, combine, sample
from headspec.resampling import holm
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

#: what their rows are about, beside tasks and seeds
KEY = ("model", "mixture", "method")
RUN = dict.fromkeys(KEY, TEXT) | {"seed": INT}
SEEDS = dict.fromkeys(KEY, TEXT) | {"task": TEXT, "n_seeds": INT}
# ci_over: what the interval is over, "examples" (one or two seeds) or "seeds and examples"
INTERVAL = {"ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT}
SCHEMAS = {
    "dissociation": Schema(
        RUN | {"fraction": FLOAT, "task": TEXT, "dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT,
               "p_value": FLOAT, "floor": FLAG, "p_holm": FLOAT, "metric": TEXT, "base": FLOAT},
        keys=6,
    ),
    "mixtures": Schema(
        RUN | {"mean_dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "case": TEXT,
               "distinct": FLAG, "floor": FLAG},
        keys=4,
    ),
    # seeds combined, at the main fraction; task "mean" is the mean over the mixture's tasks
    "combined": Schema(
        SEEDS | {"fraction": FLOAT, "dissociation": FLOAT} | INTERVAL
        | {"p_value": FLOAT, "p_holm": FLOAT, "floor": FLAG, "case": TEXT, "distinct": FLAG},
        keys=4,
    ),
    # the same at every fraction
    "fractions": Schema(
        dict.fromkeys(KEY, TEXT) | {"task": TEXT, "fraction": FLOAT, "n_seeds": INT, "dissociation": FLOAT}
        | INTERVAL | {"p_value": FLOAT, "floor": FLAG},
        keys=5,
    ),
    # area: mean dissociation over all fractions from 0 to the largest
    "areas": Schema(
        SEEDS | {"area": FLOAT} | INTERVAL | {"p_value": FLOAT, "p_holm": FLOAT}, keys=4
    ),
}  # fmt: skip
#: the row of a mixture that holds the mean over its tasks
MEAN = "mean"


def _rows(sampled: Sampled, tasks: Sequence[str], confidence: float) -> list[dict[str, Any]]:
    """A row for each of `tasks`, the mean over them the last, if there is one."""
    low, high, over = sampled.interval(confidence)
    columns = {
        "task": tasks, "base": sampled.base, "dissociation": sampled.mean, "ci_low": low, "ci_high": high,
        "p_value": sampled.p_value, "floor": sampled.floor,
    }  # fmt: skip
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row | {"ci_over": over} for row in rows]


def _kind(sampled: Sampled, confidence: float, distinct: float) -> dict[str, Any]:
    """Case of a mixture, and whether it is distinct."""
    low, high, _ = sampled.interval(confidence)
    least, most, _ = sampled.interval(1 - (1 - confidence) / sampled.d.shape[-1])  # Bonferroni
    kind = case(sampled.mean, (low, high), (least, most))
    return {"case": kind, "distinct": is_distinct(kind, float(sampled.mean.mean()), distinct)}


def analyse(
    evaluations: Iterable[Evaluation],
    resamples: int,
    confidence: float,
    distinct: float,
    fraction: float,
    fractions: Sequence[float],
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Dissociation of every run of a study, and of its seeds combined.

    Parameters
    ----------
    evaluations : runs of at least two tasks each
        May be a generator: one run's predictions are held at a time.
    resamples : int
        Of the bootstrap, and of the permutation test.
    confidence : float
        Level of the intervals, and of the floor.
    distinct : float
        Mean dissociation from which a double dissociation is distinct.
    fraction : float
        Main fraction of heads that is pruned.
    fractions : floats
        All others.
    seed : int
        Every model, mixture and task draws from it by name: of other runs only p_holm depends on them.

    Returns
    -------
    dict of DataFrame
        Rows of task 'mean' are means over the tasks of a mixture; their floor is that of any task.

        - 'dissociation': every run, task and fraction; p_holm corrects over the runs and tasks of a
          fraction
        - 'mixtures': the mean of every run, at the main fraction
        - 'combined': seeds combined, at the main fraction; p_holm corrects over the means, and apart
          from them over all other rows
        - 'fractions': seeds combined, at every fraction
        - 'areas': seeds combined, mean over fractions (see `Sampled.area`), where there are several;
          p_holm as in 'combined'
    """
    every = sorted({fraction, *fractions})
    main = every.index(fraction)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    groups: dict[tuple[str, ...], list[Sampled]] = defaultdict(list)
    tasks: dict[tuple[str, ...], tuple[str, ...]] = {}
    for evaluation in evaluations:
        run = evaluation.run
        key: tuple[str, ...] = (run.model, run.mixture, run.method)
        sampled = sample(evaluation, every, resamples, confidence, seed)
        groups[key].append(sampled)
        tasks[key] = (*run.tasks, MEAN)
        fields = dict(zip(KEY, key, strict=True)) | {"seed": run.seed}
        for i, part in enumerate(every):
            for row in _rows(sampled.at(i), run.tasks, confidence):
                more = {"fraction": part, "metric": evaluation.metrics[row["task"]]}
                found["dissociation"].append(fields | more | row)
        (mean,) = _rows(sampled.at(main).with_mean(), tasks[key], confidence)[-1:]
        kind = _kind(sampled.at(main), confidence, distinct)
        found["mixtures"].append(fields | mean | kind | {"mean_dissociation": mean["dissociation"]})
    for key, seeds in groups.items():
        together = combine(seeds)
        fields = dict(zip(KEY, key, strict=True)) | {"n_seeds": len(seeds)}
        for i, part in enumerate(every):
            rows = _rows(together.at(i).with_mean(), tasks[key], confidence)
            found["fractions"] += [fields | {"fraction": part} | row for row in rows]
        rows = _rows(together.at(main).with_mean(), tasks[key], confidence)
        rows[-1] |= _kind(together.at(main), confidence, distinct)
        found["combined"] += [fields | {"fraction": fraction} | row for row in rows]
        if len(every) > 1:
            rows = _rows(together.area(every).with_mean(), tasks[key], confidence)
            found["areas"] += [fields | row | {"area": row["dissociation"]} for row in rows]
    result = {name: pd.DataFrame(rows, columns=list(SCHEMAS[name].columns)) for name, rows in found.items()}
    families = {"dissociation": "fraction", "combined": "task", "areas": "task"}
    for name, column in families.items():
        family = result[name][column] if column == "fraction" else result[name][column] == MEAN
        result[name]["p_holm"] = result[name].groupby(family)["p_value"].transform(holm)
    return result
