"""Pruning methods compared with importance and with the whole model, and dynamic with static pruning."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import PrunedRun
from headspec.config.values import IMPORTANCE, MEAN, WHOLE
from headspec.seeds import derive
from headspec.statistics.comparison import (
    Key,
    Predicted,
    comparison_rows,
    mean_over_tasks,
    predicted,
    values_of,
)
from headspec.statistics.intervals import TESTED, corrected, over_seeds_and_examples
from headspec.statistics.kept_heads import DRAWN_AS, SET_KEYS
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema
from headspec.tasks.metrics import bootstrap_counts, resampled_scores

#: largest distance of the number of open heads from its target, as a fraction of the heads
TOLERANCE = 0.05


class Counts(NamedTuple):
    """Numbers of heads of a run, averaged over its sets."""

    heads: float  # number kept
    open_heads: float = np.nan  # number expected to be open by the gates as learnt; nan without a target
    missed: float = np.nan  # share of the sets whose `open_heads` missed the target (`TOLERANCE`)


def missed(expected: float, target: float, heads: int) -> bool:
    """Return whether the number of heads `expected` to be open, of `heads` that learn, misses its target."""
    return abs(expected - target) > TOLERANCE * heads


def counts(gates: pd.DataFrame, open_ended: bool = False) -> Counts:
    """Return the numbers of heads that a run finally keeps, from its table 'gates_of_run'.

    Gates have a target, the number kept, if they have a probability of being open and are not `open_ended`.
    """
    last = gates[gates["step"] == gates["step"].max()]
    sets = last.groupby("task", dropna=False)
    kept = sets["kept"].sum()
    if open_ended or last["open_probability"].isna().any():
        return Counts(float(kept.mean()))
    open_heads, learning = sets["open_probability"].sum(), sets["score"].count()
    off = [missed(*numbers) for numbers in zip(open_heads, kept, learning, strict=True)]
    return Counts(float(kept.mean()), float(open_heads.mean()), float(np.mean(off)))


BUDGETS = Schema(
    SET_KEYS
    | {"metric": TEXT, "against": TEXT, "heads": FLOAT, "open_heads": FLOAT, "missed": FLOAT, "n_seeds": INT,
       "value": FLOAT, "value_low": FLOAT, "value_high": FLOAT, "difference": FLOAT, "ci_low": FLOAT,
       "ci_high": FLOAT, "ci_over": TEXT}
    | TESTED
    | {"unpruned_at_chance": FLAG},
    keys=10,
    about={
        "against": "`importance` with the same number of heads, or `whole`; for `dynamic` also `static`, "
            "each with its own number where fraction is null; null for `whole`",
        "heads": "number of heads kept, mean over seeds and tasks",
        "open_heads": "expected number of heads that learnt gates leave open; null without a target",
        "missed": "share of the sets of gates that [missed](methods/gates.md#results) their target by over 5 "
            "% of the heads",
        "value": "mean over seeds",
    },
)  # fmt: skip

Floats = NDArray[np.float64]
Kept = tuple[str, float | None, float | None]  # pruning method, fraction, penalty

#: pruning method: the method that its authors compared it with
PAIRED = {"dynamic": "static"}


def budgets(
    runs: Sequence[PrunedRun],
    read: Callable[[PrunedRun], pd.DataFrame],
    heads: Mapping[PrunedRun, Counts],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `budgets`.

    A task is scored on the examples that all methods have, since a ranking by validation examples leaves out
    those that it used. Both p-values are corrected over the pruning methods, numbers of heads, tasks and
    metrics that are compared with the same method in the same runs, separately for means over tasks. `heads`
    has the `counts` of each run. Draws depend on `seed` and the names of model, mixture, method, scope and
    task. Raises DataError if methods that are compared differ in their number of seeds.
    """
    groups: dict[tuple[str, ...], list[PrunedRun]] = {}
    for run in runs:
        groups.setdefault((run.run.model, run.run.mixture, run.run.method, run.scope), []).append(run)
    rows: list[dict[str, object]] = []
    for key, group in groups.items():
        drawn = derive(seed, "budgets", *key[:3], DRAWN_AS[key[3]])
        names = dict(zip(SET_KEYS, key, strict=False))
        rows += [names | row for row in _rows(group, read, heads, metrics, resamples, confidence, drawn)]
    result = pd.DataFrame(rows, columns=list(BUDGETS.columns)).astype({"penalty": float})
    is_mean = result["task"] == MEAN
    family = [result[name] for name in ("model", "mixture", "method", "scope", "against")]
    return corrected(result, [*family, is_mean])


def _rows(
    group: list[PrunedRun],
    read: Callable[[PrunedRun], pd.DataFrame],
    heads: Mapping[PrunedRun, Counts],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> Iterator[dict[str, object]]:
    """Yield the rows for the runs of all seeds of one model, mixture, training method and scope."""
    frames = {run: read(run) for run in group}
    examples = (frame[["task", "example"]].drop_duplicates() for frame in frames.values())
    common = functools.reduce(pd.merge, examples)
    by_method: dict[Kept, dict[str, Predicted]] = {}
    numbers: dict[Kept, dict[str, float]] = {}
    for key in dict.fromkeys((run.pruning_method, run.fraction, run.penalty) for run in group):
        same = [run for run in group if (run.pruning_method, run.fraction, run.penalty) == key]
        by_method[key] = predicted((run.run, frames[run].merge(common)) for run in same)
        means = np.mean([heads[run] for run in same], axis=0).tolist()
        numbers[key] = Counts(*means)._asdict()
    for (method, fraction, penalty), by_task in by_method.items():
        intervals = _value_intervals(by_task, metrics, resamples, confidence, seed)
        own = {"way": method, "fraction": fraction, "penalty": penalty, **numbers[method, fraction, penalty]}
        others: list[Kept] = [(IMPORTANCE, fraction, None), (WHOLE, 1.0, None)]
        others += [(PAIRED[method], fraction, penalty)] if method in PAIRED else []
        compared: list[Kept | None] = [other for other in others if other in by_method and other[0] != method]
        for other in compared or [None]:
            base = by_method[other] if other else {}
            for row in comparison_rows(by_task, base, metrics, resamples, confidence, seed):
                low, high, _ = intervals[str(row["task"]), str(row["metric"])]
                bounds = {"value_low": float(low), "value_high": float(high)}
                yield own | row | bounds | {"against": other[0] if other else None}


def _value_intervals(
    by_task: Mapping[str, Predicted],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> dict[Key, tuple[Floats, Floats, str]]:
    """Return the interval of each metric's mean over seeds."""
    values, samples = values_of(by_task, metrics), {}
    for task, predictions in by_task.items():
        rng = np.random.default_rng(derive(seed, "values", task))
        weights = bootstrap_counts(len(predictions.label), resamples, rng)
        for metric in metrics[task]:
            scored = resampled_scores(metric, predictions.label, predictions.prediction, weights)
            samples[task, metric] = scored
    samples[MEAN, MEAN] = mean_over_tasks(samples)
    return {key: over_seeds_and_examples(values[key], samples[key], confidence) for key in values}
