"""Dissociation scores of pruning matrices: estimates, intervals, tests, cases.

A pruning matrix holds in row j and column i the metric of the **evaluated** task i when the heads
of task j are pruned. Dissociation compares within a column: the same task, other heads pruned. The
code released with the paper compares within a row instead, which mixes tasks of different metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from headspec.errors import DataError
from headspec.metrics import chance, score
from headspec.resampling import bootstrap_counts, holm, interval, p_value, permuted_scores
from headspec.runs import Run
from headspec.seeds import derive
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

RUN = {"model": TEXT, "mixture": TEXT, "method": TEXT, "seed": INT}
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
    # seeds combined; task "mean" is the mean over the mixture's tasks
    "combined": Schema(
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "n_seeds": INT, "dissociation": FLOAT,
         "ci_low": FLOAT, "ci_high": FLOAT, "p_value": FLOAT, "p_holm": FLOAT, "floor": FLAG,
         "case": TEXT, "distinct": FLAG},
        keys=4,
    ),
}  # fmt: skip

Floats = NDArray[np.float64]


def relative(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Relative performance P(i | prune j) = M_i(prune j) / M_i(base) (Li et al. 2023, Eq. 5).

    Parameters
    ----------
    matrix : (..., k, k)
        Metric of evaluated task i (last axis) when the heads of task j are pruned.
    base : (..., k)
        Metric of task i with no head pruned.

    Returns
    -------
    (..., k, k)
        nan where the base is not positive, of which nothing can be a part.
    """
    matrix, base = np.asarray(matrix, dtype=float), np.asarray(base, dtype=float)[..., None, :]
    shape = np.broadcast_shapes(matrix.shape, base.shape)
    return np.divide(matrix, base, out=np.full(shape, np.nan), where=base > 0)


def scores(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Dissociation D_i = mean over j != i of P(i | prune j), less P(i | prune i) (Eq. 6 and 7).

    Parameters and the meaning of nan are those of `relative`; at least two tasks.

    Returns
    -------
    (..., k)
        Fractions: 0.10 is the paper's 10 %.
    """
    parts = relative(matrix, base)
    own = np.diagonal(parts, axis1=-2, axis2=-1)
    if own.shape[-1] < 2:
        raise ValueError(f"dissociation needs at least two tasks, not {own.shape[-1]}")
    return (parts - own[..., None, :]).sum(axis=-2) / (own.shape[-1] - 1)


def case(d: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None) -> str:
    """Which kind of dissociation the tasks of a mixture show.

    Parameters
    ----------
    d : (k,)
        Dissociation of each task.
    low, high : (k,), optional
        Their intervals; without, the values count as their own. A value is *clearly* positive or
        negative when its interval does not reach 0. Every interval keeps the plain level:
        asking all of them to exclude 0 is already the stricter test.

    Returns
    -------
    {'double', 'single', 'inverted', 'none'}
        double: every task clearly positive. single: some, not all. inverted: no value above 0 and
        at least one clearly below, so that pruning a task's own heads hurts it *less* than
        pruning others': the importance estimate is wrong. none: all else.
    """
    d = np.asarray(d, dtype=float)
    positive = (d if low is None else np.asarray(low)) > 0
    negative = (d if high is None else np.asarray(high)) < 0
    if positive.all():
        return "double"
    if positive.any():
        return "single"
    return "inverted" if negative.any() and (d <= 0).all() else "none"


def is_distinct(case: str, mean: float, threshold: float) -> bool:
    """Whether a double dissociation is *distinct*: its mean reaches `threshold` (Shallice 1988)."""
    return case == "double" and bool(mean >= threshold)


@dataclass(frozen=True)
class Evaluation:
    """What pruning did to one run.

    metrics: main metric of each task. predictions: table 'predictions', in which every task of
    the run is evaluated on the same examples with nothing and with every task's heads pruned.
    """

    run: Run
    metrics: Mapping[str, str]
    predictions: pd.DataFrame


@dataclass(frozen=True)
class Sampled:
    """Dissociation of the k tasks of one run, with what resampling says of it."""

    base: Floats  # (k,)
    d: Floats  # (k,)
    bootstrap: Floats  # (resamples, k)
    null: Floats  # (resamples, k)
    floor: NDArray[np.bool_]  # (k,)


def _aligned(evaluation: Evaluation, task: str) -> tuple[Floats, Floats]:
    """Labels (n,) of `task`, and predictions (n, 1 + k): nothing pruned, then each task's heads."""
    masks = ["none", *evaluation.run.tasks]
    rows = evaluation.predictions[evaluation.predictions["task"] == task]
    wide = rows.pivot(index="example", columns="pruned_for", values="prediction").reindex(columns=masks)
    missing = wide.columns[wide.isna().any()] if len(wide) else masks
    if len(missing):
        where = f"{evaluation.run.path}/predictions.parquet"
        raise DataError(f"{where}: task '{task}' lacks predictions with pruned_for '{missing[0]}'")
    label = rows.drop_duplicates("example").set_index("example")["label"].loc[wide.index]
    return label.to_numpy(dtype=float), wide.to_numpy(dtype=float)


def sample(
    evaluation: Evaluation,
    resamples: int,
    confidence: float,
    seed: int,
    permutations: int | None = None,
    examples_of: str | None = None,
) -> Sampled:
    """Dissociation of one run, its bootstrap and its permutations.

    Bootstrap: the validation examples of each evaluated task are resampled, the same ones for the
    base and every pruning (paired), independently for the tasks. Runs that differ only in their
    seed draw the same examples, so that `combine` can pair them.

    Permutation: where it makes no difference whose heads are pruned, the predictions of the k
    prunings are exchangeable within an example; each example's are put in random order (for
    two tasks: swapped or not), the base stays.

    Floor: some pruning leaves the task no better than `chance`, by the one-sided interval of the
    paired difference at `confidence`. Below it a metric cannot fall, so D means little.

    Parameters
    ----------
    permutations : as many as `resamples` by default
    examples_of : the method whose bootstrap draws the same examples; by default the run's own
    """
    run = evaluation.run
    permutations = resamples if permutations is None else permutations
    group = ("dissociation", run.model, run.mixture, run.method)
    point, bootstrap, null, floor = [], [], [], []
    for task in run.tasks:
        metric = evaluation.metrics[task]
        label, predictions = _aligned(evaluation, task)
        n = len(label)
        drawn = (*group[:-1], examples_of or run.method)
        rng = np.random.default_rng(derive(seed, *drawn, task, "bootstrap"))
        weights = bootstrap_counts(n, resamples, rng)
        point.append([score(metric, label, p) for p in predictions.T])
        bootstrap.append(np.stack([score(metric, label, p, weights) for p in predictions.T], axis=-1))
        above = bootstrap[-1][:, 1:] - chance(metric, label, weights)[:, None]
        floor.append(bool((np.quantile(above, 1 - confidence, axis=0) <= 0).any()))
        rng = np.random.default_rng(derive(seed, *group, run.seed, task, "permutation"))
        null.append(permuted_scores(metric, label, predictions[:, 1:], permutations, rng))
    # tasks last: (1 + k, k), (resamples, 1 + k, k), (resamples, k, k)
    metrics, resampled, shuffled = (np.stack(parts, axis=-1) for parts in (point, bootstrap, null))
    return Sampled(
        base=metrics[0],
        d=scores(metrics[1:], metrics[0]),
        bootstrap=scores(resampled[:, 1:], resampled[:, 0]),
        null=scores(shuffled, metrics[0]),
        floor=np.array(floor),
    )


def combine(runs: Sequence[Sampled], rng: np.random.Generator) -> Sampled:
    """Several seeds of one model, mixture and method as one: means over seeds.

    Bootstrap: hierarchical, seeds with replacement, then examples; within a resample all seeds
    see the same examples, on which they are indeed evaluated. With S seeds it shows (S - 1) / S of
    the variance between seeds, so with two or three the interval is too narrow for statements
    about any other seed. With one it is the run's own. Floor: that of any seed.
    """
    share = bootstrap_counts(len(runs), len(runs[0].bootstrap), rng) / len(runs)
    return Sampled(
        base=np.mean([run.base for run in runs], axis=0),
        d=np.mean([run.d for run in runs], axis=0),
        bootstrap=np.einsum("rs,srk->rk", share, np.stack([run.bootstrap for run in runs])),
        null=np.mean([run.null for run in runs], axis=0),
        floor=np.any([run.floor for run in runs], axis=0),
    )


def _task_rows(sampled: Sampled, tasks: Sequence[str], confidence: float) -> list[dict[str, Any]]:
    low, high = interval(sampled.bootstrap, confidence)
    names = ("task", "base", "dissociation", "ci_low", "ci_high", "p_value", "floor")
    values = (tasks, sampled.base, sampled.d, low, high, p_value(sampled.d, sampled.null), sampled.floor)
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _mean_row(sampled: Sampled, confidence: float, distinct: float) -> dict[str, Any]:
    mean = float(sampled.d.mean())
    low, high = interval(sampled.bootstrap.mean(axis=1), confidence)
    kind = case(sampled.d, *interval(sampled.bootstrap, confidence))
    return {
        "dissociation": mean, "ci_low": low, "ci_high": high,
        "p_value": float(p_value(mean, sampled.null.mean(axis=1))), "floor": sampled.floor.any(),
        "case": kind, "distinct": is_distinct(kind, mean, distinct),
    }  # fmt: skip


def _table(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(SCHEMAS[name].columns))


def analyse(
    evaluations: Iterable[Evaluation],
    resamples: int,
    confidence: float,
    distinct: float,
    fraction: float,
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
        Part of the heads that was pruned.
    seed : int
        Every run and task draws from it by name: of the other runs only p_holm depends on them.

    Returns
    -------
    dict of DataFrame
        'dissociation': p_holm corrects over all runs and tasks. 'mixtures': the mean over a run's
        tasks; its floor is that of any task. 'combined': seeds combined (see `combine`);
        rows of task 'mean' carry case and distinct, and p_holm corrects over them apart from
        the rows of tasks.
    """
    dissociation, mixtures, combined = [], [], []
    groups: dict[tuple[str, ...], dict[int, Sampled]] = defaultdict(dict)
    tasks: dict[tuple[str, ...], tuple[str, ...]] = {}
    for evaluation in evaluations:
        run = evaluation.run
        key: tuple[str, ...] = (run.model, run.mixture, run.method)
        sampled = sample(evaluation, resamples, confidence, seed)
        groups[key][run.seed] = sampled
        tasks[key] = run.tasks
        fields = {"model": run.model, "mixture": run.mixture, "method": run.method, "seed": run.seed}
        for row in _task_rows(sampled, run.tasks, confidence):
            metric = evaluation.metrics[row["task"]]
            dissociation.append(fields | {"fraction": fraction, "metric": metric} | row)
        mean = _mean_row(sampled, confidence, distinct)
        mixtures.append(fields | mean | {"mean_dissociation": mean["dissociation"]})
    for key, seeds in groups.items():
        rng = np.random.default_rng(derive(seed, "dissociation", *key, "seeds"))
        together = combine([seeds[s] for s in sorted(seeds)], rng)
        fields = dict(zip(("model", "mixture", "method"), key, strict=True)) | {"n_seeds": len(seeds)}
        combined += [fields | row for row in _task_rows(together, tasks[key], confidence)]
        combined.append(fields | {"task": "mean"} | _mean_row(together, confidence, distinct))
    result = {
        "dissociation": _table("dissociation", dissociation),
        "mixtures": _table("mixtures", mixtures),
        "combined": _table("combined", combined),
    }
    result["dissociation"]["p_holm"] = holm(result["dissociation"]["p_value"])
    means = result["combined"]["task"] == "mean"
    result["combined"]["p_holm"] = result["combined"].groupby(means)["p_value"].transform(holm)
    return result
