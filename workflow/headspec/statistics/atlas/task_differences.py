"""Differences of a measure of each head between the tasks of a mixture."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from headspec.config.runs import Run
from headspec.seeds import derive
from headspec.statistics.atlas.measures import KEY, fold_interval, fold_values, resampled_means, unbiased
from headspec.statistics.intervals import p_over_seeds_and_examples
from headspec.statistics.verdicts import TESTED, corrected
from headspec.tables import FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]

#: measures whose size depends on the task's loss, compared as shares of their sum over heads
SHARES = ("importance", "ablation_size")
#: measures of one scale for all tasks
PLAIN = ("relevance", "confidence")
#: in place of a task's name: the mean of the other tasks
OTHERS = "others"

TASK_DIFFERENCES = Schema(
    dict.fromkeys((*KEY, "task", "against", "measure"), TEXT)
    | {"layer": INT, "head": INT, "n_seeds": INT, "value": FLOAT, "other": FLOAT, "difference": FLOAT,
       "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT}
    | TESTED,
    keys=8,
)  # fmt: skip
"""Table `task_differences`: a row for each task, measure and head.
tables/task_differences.parquet

against: the other task of the mixture, or the mean of `others`
measure: `importance` and `ablation_size`, as shares of the sum over heads; `relevance`, `confidence`
other: value of `against`
"""


def task_differences(
    runs: Iterable[tuple[Run, pd.DataFrame]], resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return the table `task_differences`: every head's measure for a task, minus its mean for the others.

    Importance and the size of ablation depend on the size of a task's loss, so they are shares of their sum
    over all heads: a difference says that the task relies more on this head and less on others. Signed
    ablation has no such sum and is left out.

    Intervals and p are from a bootstrap of folds, independent for each task: t intervals and t tests with one
    degree of freedom fewer than there are folds. From three seeds on, intervals and p_seeds, which is at
    least p_value, cover seeds too. Both p are corrected over the heads of a model, mixture, method, task and
    measure. In simulations without a difference, with skewed values on different scales, 2 to 7 % of maps
    have a head with p_holm below 0.05, and 95 % intervals cover 94 to 98 %.

    `runs` are pairs of a run and its fold table (see `head_values`).
    """
    groups: dict[tuple[str, ...], list[tuple[Run, pd.DataFrame]]] = defaultdict(list)
    for run, folds in runs:
        if len(run.tasks) > 1:
            groups[run.model, run.mixture, run.method].append((run, folds))
    frames = [
        _differences(seeds, measure, resamples, confidence, seed).assign(**dict(zip(KEY, key, strict=True)))
        for key, seeds in groups.items()
        for measure in (*SHARES, *PLAIN)
        if (seeds[0][1]["measure"] == measure).any()
    ]
    columns = list(TASK_DIFFERENCES.columns)
    if not frames:
        return pd.DataFrame(columns=columns)
    table = pd.concat(frames, ignore_index=True)
    return corrected(table, [table[name] for name in (*KEY, "task", "against", "measure")])[columns]


def _differences(
    seeds: list[tuple[Run, pd.DataFrame]], measure: str, resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Rows of one measure of a model, mixture and method."""
    tasks = seeds[0][0].tasks
    sampled = {task: _sampled(seeds, task, measure, resamples, seed) for task in tasks}
    folds = min(n for *_, n in sampled.values())
    heads = seeds[0][1][["layer", "head"]].drop_duplicates().sort_values(["layer", "head"])
    frames = []
    for task in tasks if len(tasks) > 2 else tasks[:1]:
        rest = [sampled[other] for other in tasks if other != task]
        value, bootstrap, _ = sampled[task]
        other = np.mean([values for values, *_ in rest], axis=0)
        resampled = bootstrap - np.mean([many for _, many, _ in rest], axis=0)
        interval = fold_interval(value - other, resampled, folds, confidence)
        difference, deviation = (value - other).mean(axis=0), resampled.mean(axis=1).std(axis=0)
        t = np.divide(difference, deviation, out=np.zeros_like(difference), where=deviation > 0)
        p = 2 * stdtr(folds - 1, -np.abs(t))
        row: dict[str, Any] = {"task": task, "against": OTHERS if len(rest) > 1 else tasks[1]}
        row |= {"measure": measure, "n_seeds": len(seeds)}
        row |= {"value": value.mean(axis=0), "other": other.mean(axis=0)}
        row |= {"difference": difference, "ci_low": interval.low, "ci_high": interval.high}
        p_seeds = np.maximum(p_over_seeds_and_examples(value - other, resampled), p)
        frames.append(heads.assign(**row, ci_over=interval.over, p_value=p, p_seeds=p_seeds))
    return pd.concat(frames, ignore_index=True)


def _sampled(
    seeds: list[tuple[Run, pd.DataFrame]], task: str, measure: str, resamples: int, seed: int
) -> tuple[Floats, Floats, int]:
    """Scaled values of a task (S, heads), their bootstrap (resamples, S, heads), and the number of folds."""
    found = []
    for _, folds in seeds:
        _, values, n = fold_values(folds[(folds["task"] == task) & (folds["measure"] == measure)])
        mean = np.average(values[:, 0], axis=0, weights=n)
        means = resampled_means(values[:, 0], n, resamples, derive(seed, "task differences", task))
        found.append((_scaled(mean, measure), unbiased(_scaled(means, measure), len(n)), len(n)))
    estimates, bootstraps, numbers = zip(*found, strict=True)
    return np.stack(estimates), np.stack(bootstraps, axis=1), numbers[0]


def _scaled(means: Floats, measure: str) -> Floats:
    """Scale means (..., heads) so that tasks can be compared."""
    if measure not in SHARES:
        return means
    sums = means.sum(axis=-1, keepdims=True)
    return np.divide(means, sums, out=np.zeros_like(means), where=sums > 0)
