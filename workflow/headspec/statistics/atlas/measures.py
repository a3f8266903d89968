"""Measures of heads with intervals, agreement between measures, and differences between tasks."""

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from headspec.config.runs import Run
from headspec.seeds import derive
from headspec.statistics.intervals import (
    FEWEST,
    TESTED,
    Interval,
    corrected,
    over_seeds_and_examples,
    p_over_seeds_and_examples,
)
from headspec.tables import FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]

KEY = ("model", "mixture", "method")
HEADS = Schema(
    dict.fromkeys(KEY, TEXT)
    | {"seed": INT, "task": TEXT, "layer": INT, "head": INT, "measure": TEXT, "value": FLOAT,
       "ci_low": FLOAT, "ci_high": FLOAT, "n": INT},
    keys=8,
)  # fmt: skip
AGREEMENT = Schema(
    dict.fromkeys(KEY, TEXT)
    | {"task": TEXT, "measure_a": TEXT, "measure_b": TEXT, "n_seeds": INT, "spearman": FLOAT,
       "spearman_low": FLOAT, "spearman_high": FLOAT, "top_overlap": FLOAT, "top_overlap_low": FLOAT,
       "top_overlap_high": FLOAT, "ci_over": TEXT},
    keys=6,
    about={
        "measure_a": "the two measures",
        "measure_b": "the two measures",
        "spearman": "rank correlation over heads, mean over seeds",
        "top_overlap": "Jaccard index of the sets of top heads, mean over seeds",
    },
)  # fmt: skip


def head_values(run: Run, folds: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return rows of the table `heads` for a run, with Student's t intervals over folds.

    Rows of `folds` are task x measure x fold x layer x head, with the mean `value` of the fold's `n`
    examples.
    """
    rows = folds.assign(total=folds["value"] * folds["n"], square=folds["value"] ** 2 * folds["n"])
    groups = rows.groupby(["task", "layer", "head", "measure"], sort=True)
    sums = groups.agg(n=("n", "sum"), total=("total", "sum"), square=("square", "sum"), k=("n", "size"))
    value = sums["total"] / sums["n"]
    spread = np.maximum(sums["square"] / sums["n"] - value**2, 0)  # of fold means, weighted
    degrees = sums["k"] - 1
    reach = stdtrit(degrees, (1 + confidence) / 2) * np.sqrt(spread / degrees)
    frame = pd.DataFrame({"value": value, "ci_low": value - reach, "ci_high": value + reach, "n": sums["n"]})
    return frame.reset_index().assign(**{k: getattr(run, k) for k in KEY}, seed=run.seed)


def agreement(
    runs: Iterable[tuple[Run, pd.DataFrame]], fraction: float, resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return the table `agreement`: how well any two measures agree on the heads that matter.

    All measures, runs and seeds share the folds of a task (`headspec.atlas.sample`) and their resamples. With
    one or two seeds, an interval is the estimate plus and minus t standard deviations of the bootstrap;
    percentiles would be too low, because resampling adds noise, which lowers agreement. With more seeds see
    `over_seeds_and_examples`. Simulated coverage of 95 % intervals is 85 to 96 % for Spearman and 80 to 95 %
    for the overlap, if a fold's noise is no larger than the differences between heads. With more noise the
    estimate itself is too low. `runs` have fold tables as in `head_values`; the overlap is that of the top
    `fraction` of heads; negative values rank lowest.
    """
    groups: dict[tuple[str, ...], list[tuple[Floats, Floats]]] = defaultdict(list)
    measures: dict[tuple[str, ...], list[str]] = {}
    folds_of: dict[tuple[str, ...], int] = {}
    for run, folds in runs:
        for task in run.tasks:
            key: tuple[str, ...] = (run.model, run.mixture, run.method, task)
            measures[key], values, n = fold_values(folds[folds["task"] == task])
            folds_of[key] = len(n)
            means = resampled_means(values, n, resamples, derive(seed, "agreement", task))
            groups[key].append(_agreements(values, n, means, fraction))
    rows: list[dict[str, Any]] = []
    for key, seeds in groups.items():
        estimate, bootstrap = (np.stack(values) for values in zip(*seeds, strict=True))
        interval = fold_interval(estimate, bootstrap.swapaxes(0, 1), folds_of[key], confidence)
        mean, bounds = estimate.mean(axis=0), np.clip([interval.low, interval.high], -1, 1)
        for a, b in itertools.combinations(range(len(measures[key])), 2):
            row: dict[str, Any] = dict(zip((*KEY, "task"), key, strict=True))
            row |= {"measure_a": measures[key][a], "measure_b": measures[key][b], "n_seeds": len(seeds)}
            for i, name in enumerate(("spearman", "top_overlap")):
                low, high = bounds[:, i, a, b]
                row |= {name: mean[i, a, b], f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"ci_over": interval.over})
    return pd.DataFrame(rows, columns=list(AGREEMENT.columns))


def fold_values(folds: pd.DataFrame) -> tuple[list[str], Floats, Floats]:
    """Return the measures, their fold means (folds, measures, heads), and numbers of examples (folds,)."""
    wide = folds.pivot(index=["fold", "measure"], columns=["layer", "head"], values="value").sort_index()
    measures = list(wide.index.unique("measure"))
    values = wide.to_numpy(dtype=float).reshape(-1, len(measures), wide.shape[1])
    return measures, values, folds.groupby("fold")["n"].first().to_numpy(dtype=float)


def resampled_means(values: Floats, n: Floats, resamples: int, seed: int) -> Floats:
    """Return means (resamples, ...) over resampled folds, from fold means (folds, ...) of n examples each."""
    counts = np.random.default_rng(seed).multinomial(len(n), np.full(len(n), 1 / len(n)), resamples)
    weights = counts * n
    means: Floats = np.tensordot(weights, values, axes=1) / weights.sum(axis=1).reshape(
        -1, *[1] * (values.ndim - 1)
    )
    return means


def unbiased(bootstrap: Floats, folds: int) -> Floats:
    """Widen a bootstrap of folds (resamples, ...) to the spread of means over one fold fewer."""
    center = bootstrap.mean(axis=0)
    widened: Floats = center + np.sqrt(folds / (folds - 1)) * (bootstrap - center)
    return widened


def _agreements(values: Floats, n: Floats, means: Floats, fraction: float) -> tuple[Floats, Floats]:
    """Return Spearman and overlap of all pairs, (2, measures, measures), and those of every resample."""
    estimate = _pairs(np.average(values, axis=0, weights=n)[None], fraction)[0]
    return estimate, unbiased(_pairs(means, fraction), len(n))


def fold_interval(estimate: Floats, bootstrap: Floats, folds: int, confidence: float) -> Interval:
    """Return the interval of the mean of `estimate` (S, ...) over seeds.

    `bootstrap` is (resamples, S, ...). With one or two seeds, it is a t interval over folds.
    """
    if len(estimate) >= FEWEST:
        return over_seeds_and_examples(estimate, bootstrap, confidence)
    mean, deviation = estimate.mean(axis=0), bootstrap.mean(axis=1).std(axis=0)
    reach = stdtrit(folds - 1, (1 + confidence) / 2) * deviation
    return Interval(mean - reach, mean + reach, "examples")


def _pairs(means: Floats, fraction: float) -> Floats:
    """Return Spearman and overlap (r, 2, measures, measures) of pairs, from means (r, measures, heads)."""
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(means, axis=-1)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    norms = np.linalg.norm(ranks, axis=-1, keepdims=True)
    unit = np.divide(ranks, norms, out=np.zeros_like(ranks), where=norms > 0)
    top = np.zeros(means.shape)
    size = max(1, int(fraction * means.shape[-1] + 1e-9))
    np.put_along_axis(top, np.argsort(-means, axis=-1, kind="stable")[..., :size], 1.0, axis=-1)
    common = top @ top.swapaxes(-1, -2)
    return np.stack([unit @ unit.swapaxes(-1, -2), common / (2 * size - common)], axis=1)


#: measures whose size depends on the task's loss, compared as shares of their sum over heads
SHARES = ("importance", "ablation_size")
#: measures on the same scale for all tasks
PLAIN = ("relevance", "confidence")
#: stands in place of a task's name for the mean of the other tasks
OTHERS = "others"

TASK_DIFFERENCES = Schema(
    dict.fromkeys((*KEY, "task", "against", "measure"), TEXT)
    | {"layer": INT, "head": INT, "n_seeds": INT, "value": FLOAT, "other": FLOAT, "difference": FLOAT,
       "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT}
    | TESTED,
    keys=8,
    about={
        "against": "the other task of the mixture, or the mean of `others`",
        "measure": "`importance` and `ablation_size`, as shares of the sum over heads; `relevance`, "
            "`confidence`",
        "other": "value of `against`",
    },
)  # fmt: skip


def task_differences(
    runs: Iterable[tuple[Run, pd.DataFrame]], resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return the table `task_differences`: every head's measure for a task, minus its mean for the others.

    Importance and the size of ablation depend on the size of a task's loss, so they are shares of their sum
    over all heads: a difference means that the task relies more on this head and less on others. Signed
    ablation has no such sum and is left out. Of two tasks, only the first minus the second is a row.

    Intervals and p-values are from a bootstrap of folds, independent for each task: t intervals and t tests
    with one degree of freedom fewer than folds. With three or more seeds, intervals and p_seeds, which is at
    least p_value, also cover seeds. Both p-values are corrected over the heads of a model, mixture, method,
    task and measure. In simulations without a difference, with skewed values on different scales, 2 to 7 % of
    maps have a head with p_holm below 0.05, and 95 % intervals cover 94 to 98 %.

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
    """Return the rows of one measure of a model, mixture and method."""
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
    """Return scaled values of a task (S, heads), bootstrap (resamples, S, heads), and number of folds."""
    sampled = []
    for _, folds in seeds:
        _, values, n = fold_values(folds[(folds["task"] == task) & (folds["measure"] == measure)])
        mean = np.average(values[:, 0], axis=0, weights=n)
        means = resampled_means(values[:, 0], n, resamples, derive(seed, "task differences", task))
        sampled.append((_scaled(mean, measure), unbiased(_scaled(means, measure), len(n)), len(n)))
    estimates, bootstraps, numbers = zip(*sampled, strict=True)
    return np.stack(estimates), np.stack(bootstraps, axis=1), numbers[0]


def _scaled(means: Floats, measure: str) -> Floats:
    """Return means (..., heads) on one scale for all tasks: those of `SHARES` as shares of their sum."""
    if measure not in SHARES:
        return means
    sums = means.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(means, sums, out=np.zeros_like(means), where=sums > 0)
    return shares
