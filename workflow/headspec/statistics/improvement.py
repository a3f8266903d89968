"""Improvement by IAT: training methods compared with plain training, in scores and dissociation."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import per_example
from headspec.config.runs import REWARMED, Run, Variant
from headspec.config.values import MEAN
from headspec.seeds import derive
from headspec.statistics.chance import learnt_nothing
from headspec.statistics.comparison import comparison_rows, predicted
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.dissociation.resampled import ResampledDissociation, combine, resample_run
from headspec.statistics.intervals import (
    TESTED,
    over_seeds_and_examples,
)
from headspec.statistics.resampling import holm
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema
from headspec.tasks.metrics import score

IAT = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "sampling": TEXT, "seed": INT, "task": TEXT,
     "metric": TEXT, "value": FLOAT, "heads": TEXT, "alpha": FLOAT, "delta": FLOAT, "rate_share": FLOAT,
     "unpruned_at_chance": FLAG},
    keys=7,
)  # fmt: skip
IMPROVEMENT = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "metric": TEXT, "against": TEXT,
     "sampling": TEXT, "heads": TEXT, "alpha": FLOAT, "delta": FLOAT, "n_seeds": INT, "value": FLOAT,
     "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT}
    | TESTED
    | {"sd_seeds": FLOAT, "sd_examples": FLOAT, "sd_both": FLOAT, "rate_share": FLOAT,
       "unpruned_at_chance": FLAG},
    keys=5,
    about={
        "against": "method compared with; null for plain training",
        "p_seeds_holm": "`p_seeds` [corrected](statistics.md#p_value) over the study",
        "sd_seeds": "standard deviation of the difference between seeds, with infinitely many examples",
        "sd_examples": "the same between validation sets of this size",
        "sd_both": "the same of the interaction of seed and examples",
    },
)  # fmt: skip

Floats = NDArray[np.float64]

#: the method of training a task alone
SINGLE = "single"


def variant_of(method: str, variants: Sequence[Variant]) -> Variant:
    """Return the variant named `method`; if there is none, one for training a task alone."""
    alone = Variant(method=method, base=method, sampling=variants[0].sampling)
    return next(v for v in [*variants, alone] if v.method == method)


def iat_scores(
    runs: Iterable[tuple[Run, pd.DataFrame]],
    variants: Sequence[Variant],
    metrics: Mapping[str, Sequence[str]],
    shares: Mapping[str, float],
) -> pd.DataFrame:
    """Return the table `iat` from runs and their tables `evaluation`; `shares` has `rate_share` by method."""
    rows = []
    for run, predictions in runs:
        variant = variant_of(run.method, variants)
        for task, answers in predictions.groupby("task", sort=False):
            label, prediction = per_example.labels_and_predictions(answers)
            for metric in metrics[str(task)]:
                value, nothing = score(metric, label, prediction), learnt_nothing(metric, label, prediction)
                rows.append(
                    (run.model, run.mixture, run.method, variant.sampling, run.seed, task, metric, value)
                    + (variant.retraining, variant.alpha, variant.delta, shares.get(run.method), nothing)
                )
    return pd.DataFrame(rows, columns=list(IAT.columns))


def against(variants: Sequence[Variant]) -> dict[str, str]:
    """Return the method that each method is compared with.

    A method that branches off from plain training is compared with that training or, if the study has one,
    with its branch that trains all heads on with rewarmed learning rates and the same delta. Plain training
    with another sampling, and single-task training, are compared with the first of `variants`, which is
    compared with none.
    """
    plain = variants[0].method
    rewarmed = {(v.base, v.delta): v.method for v in variants if v.retraining == REWARMED}
    others = {}
    for v in variants[1:]:
        base = v.base if v.retraining == REWARMED else rewarmed.get((v.base, v.delta), v.base)
        others[v.method] = base if v.retraining else plain
    return others | {SINGLE: plain}


def by_seed(
    table: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], variants: Sequence[Variant]
) -> pd.DataFrame:
    """Return values by seed of tasks and their leaderboard mean, and differences from the compared method.

    `table` is `iat`; the single-task runs of a mixture's tasks form its method `single`; `variants` start
    with plain training. Columns are model, mixture, method, seed, task, metric, value, against and
    difference, which is nan without a value to compare with.
    """
    frames = []
    for mixture, tasks in mixtures.items():
        alone = (table["method"] == SINGLE) & table["mixture"].isin(tasks)
        together = (table["method"] != SINGLE) & (table["mixture"] == mixture)
        frames.append(table[alone | together].assign(mixture=mixture))
    run = ["model", "mixture", "method", "seed"]
    frame = pd.concat(frames)[[*run, "task", "metric", "value"]]
    means = frame.groupby([*run, "task"])["value"].mean().groupby(run).mean().reset_index()
    frame = pd.concat([frame, means.assign(task=MEAN, metric=MEAN)], ignore_index=True)
    others = frame.rename(columns={"method": "against", "value": "other"})
    frame["against"] = frame["method"].map(against(variants))
    frame = frame.merge(others, how="left", on=["model", "mixture", "against", "seed", "task", "metric"])
    return frame.assign(difference=frame["value"] - frame["other"]).drop(columns="other")


def improvement(
    runs: Sequence[Run],
    read: Callable[[Run], pd.DataFrame],
    variants: Sequence[Variant],
    metrics: Mapping[str, Sequence[str]],
    shares: Mapping[str, float],
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `improvement`: every method of the `runs` compared with another (see `against`).

    p_value is from permutations of these models' predictions (see `compare`); p_seeds covers other seeds. For
    a task, p_holm is corrected over the tasks and metrics of the same model, mixture and method; for the
    mean, over the methods of the same model and mixture, so that the best of a sweep is judged as the best of
    many. p_seeds_holm is corrected over the study, separately for means of methods that branch off from plain
    training and for all other rows.

    `variants` start with plain training; `shares` has `rate_share` by method. `read` returns the table
    `evaluation` of a run; predictions of one model and mixture are in memory at a time. Draws depend on
    `seed` and on the names of model, mixture, method and task. Raises DataError if the compared methods
    differ in tasks, examples or number of seeds.
    """
    mixtures = {run.mixture: run.tasks for run in runs if run.method != SINGLE}
    others = against(variants)
    rows: list[dict[str, object]] = []
    for model, mixture in dict.fromkeys((run.model, mixture) for run in runs for mixture in mixtures):
        by_method = {}
        for method in (variants[0].method, *others):
            names = mixtures[mixture] if method == SINGLE else (mixture,)
            by_method[method] = predicted(
                (run, read(run))
                for run in runs
                if run.model == model and run.method == method and run.mixture in names
            )
        for method, predictions in by_method.items():
            variant, other = variant_of(method, variants), others.get(method)
            own: dict[str, object] = {"model": model, "mixture": mixture, "method": method, "against": other}
            own |= {"sampling": variant.sampling, "heads": variant.retraining}
            own |= {"alpha": variant.alpha, "delta": variant.delta}
            base = by_method[other] if other else {}
            drawn = derive(seed, "improvement", model, mixture, method)
            found = comparison_rows(predictions, base, metrics, resamples, confidence, drawn)
            rows += [own | row | {"rate_share": shares.get(method)} for row in found]
    result = pd.DataFrame(rows, columns=list(IMPROVEMENT.columns))
    family = result["method"].where(result["task"] != MEAN, MEAN)
    groups = result.groupby(["model", "mixture", family])
    whole_study = result.groupby((result["task"] == MEAN) & result["heads"].notna())
    result["p_holm"] = groups["p_value"].transform(holm)
    result["p_seeds_holm"] = whole_study["p_seeds"].transform(holm)
    return result


SPECIALIZATION = Schema(
    {"model": TEXT, "mixture": TEXT, "task": TEXT, "n_seeds": INT, "before": FLOAT, "after": FLOAT,
     "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "at_chance": FLAG,
     "unpruned_at_chance": FLAG, "below_chance": FLAG},
    keys=3,
    about={
        "before": "D after plain training",
        "after": "D after IAT",
        "difference": "after minus before",
    },
)  # fmt: skip


def specialization(
    evaluations: Iterable[PrunedPredictions],
    before: str,
    fraction: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `specialization`: dissociation after IAT, minus dissociation by the method `before`.

    Importance is estimated anew in each model: the pruned heads are those that matter after IAT, not those
    that IAT was told to update. Differences are paired by seed and example; both methods must have the same
    seeds. A row is at chance if any seed of either method is, and below chance if all seeds of one are. Only
    one run's predictions are in memory at a time. Raises DataError if the examples of runs differ.
    """
    samples: dict[tuple[str, str], dict[bool, dict[int, ResampledDissociation]]] = defaultdict(
        lambda: {True: {}, False: {}}
    )
    for evaluation in evaluations:
        run = evaluation.run
        sampled = resample_run(evaluation, [fraction], resamples, confidence, seed, permutations=0)
        samples[run.model, run.mixture][run.method == before][run.seed] = sampled.at(0).with_mean()
    rows = []
    for (model, mixture), methods in samples.items():
        seeds = sorted(methods[True])
        old, new = (combine([methods[is_before][s] for s in seeds]) for is_before in (True, False))
        combine([old, new])  # raises if their examples differ
        low, high, over = over_seeds_and_examples(new.d - old.d, new.bootstrap - old.bootstrap, confidence)
        nothing = old.unpruned_at_chance | new.unpruned_at_chance
        below = old.below_chance | new.below_chance
        for i, task in enumerate([*old.run.tasks, MEAN]):
            rows.append(
                (model, mixture, task, len(seeds), old.mean[i], new.mean[i], new.mean[i] - old.mean[i])
                + (low[i], high[i], over, old.at_chance[i] or new.at_chance[i], nothing[i], below[i])
            )
    return pd.DataFrame(rows, columns=list(SPECIALIZATION.columns))
