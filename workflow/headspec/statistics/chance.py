"""Whether models have learnt a task: is the metric better than that of the best constant prediction?"""

import functools
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import per_example
from headspec.seeds import derive
from headspec.tasks.metrics import Metric, bootstrap_counts, chance, metric, score

Floats = NDArray[np.float64]

#: few, as test sets may be large
RESAMPLES = 300
#: marks of models that are no better than chance, by column, the worst first
MARKS = {"below_chance": "↓", "unpruned_at_chance": "×", "at_chance": "†"}
#: meaning of the marks
SAYS = {"↓": "unpruned model below chance", "×": "unpruned model at chance", "†": "at chance"}


def marks(frame: pd.DataFrame) -> pd.Series:
    """Return the worst mark of each row of a table, for texts, figures and pages; empty without one."""
    marked = pd.Series("", frame.index)
    for column, mark in reversed(MARKS.items()):
        if column in frame:
            marked = marked.mask(frame[column].eq(True), mark)
    return marked


def at_chance(
    by: str | Metric, label: Floats, weights: NDArray[np.integer], scores: Floats, confidence: float
) -> NDArray[np.bool_]:
    """Return whether the one-sided interval of the metric minus `chance` reaches 0, (...).

    `label` is (n,) or (n, values), `weights` (resamples, n), and `scores` (resamples, ...) are metrics of
    models in samples with these weights.
    """
    baseline = _aligned(chance(by, label, weights), scores)
    return np.asarray(np.quantile(scores - baseline, 1 - confidence, axis=0) <= 0)


def below_chance(
    by: str | Metric, label: Floats, weights: NDArray[np.integer], scores: Floats, confidence: float
) -> NDArray[np.bool_]:
    """Return whether the one-sided interval of the metric minus its `worst` constant ends below 0, (...).

    `label` is (n,) or (n, values), `weights` (resamples, n), `scores` (resamples, ...), as for `at_chance`.
    Reversed predictions, such as with swapped labels, are below chance; random ones are not. The best
    constant would not distinguish them: a coin is worse than it by F1, or with classes of unequal frequency.
    It is False for metrics without `worst`.
    """
    if (worst := metric(by).worst) is None:
        return np.zeros(scores.shape[1:], dtype=bool)
    baseline = _aligned(score(by, label, worst(label), weights), scores)
    return np.asarray(np.quantile(scores - baseline, confidence, axis=0) < 0)


def _aligned(baseline: Floats, scores: Floats) -> Floats:
    """Reshape one number per resample, (resamples,), to broadcast with `scores`, (resamples, ...)."""
    return baseline.reshape(-1, *[1] * (scores.ndim - 1))


def learnt_nothing(metric: str, label: Floats, prediction: Floats) -> bool:
    """Return whether predictions (n,) or (n, values) are `at_chance`, at 95 %."""
    weights = _weights(len(label))
    scores = score(metric, label, prediction, weights)
    return bool(at_chance(metric, label, weights, scores, 0.95))


def reversed_labels(metric: str, label: Floats, prediction: Floats) -> bool:
    """Return whether predictions (n,) or (n, values) are `below_chance`, at 95 %."""
    weights = _weights(len(label))
    scores = score(metric, label, prediction, weights)
    return bool(below_chance(metric, label, weights, scores, 0.95))


def warnings(evaluation: pd.DataFrame, metrics: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each task that the unpruned model has not learnt, by its metric."""
    for task, rows in evaluation.groupby("task", sort=False):
        by = metrics[str(task)]
        label, prediction = per_example.labels_and_predictions(rows)
        if learnt_nothing(by, label, prediction):
            value, blind = score(by, label, prediction), chance(by, label)
            than, advice = "no better than chance", ""
            why = f"{len(label)} examples do not show that the model has learnt it, as more of them could"
            if value < blind and (early := metric(by).early):
                why, advice = early[0], _advice(early[1], label, prediction)
            elif reversed_labels(by, label, prediction):
                than, why = "below chance", f"every constant prediction is better in {len(label)} examples"
                advice = ". Look whether labels or sides are swapped"
            yield (
                f"{task}: {by} {value:.3f} without pruning is {than} ({blind:.3f}, the best constant "
                f"prediction): {why}; left out of findings{advice}"
            )


def _advice(first: str, label: Floats, prediction: Floats) -> str:
    """Return advice for training that was too short for all metrics except `first`."""
    return (
        f". Raise the method's learning_rate, then its epochs; {first}, here "
        f"{score(first, label, prediction):.3f} (chance {chance(first, label):.3f}), shows learning first"
    )


def task_chances(rows: pd.DataFrame, metrics: Mapping[str, str]) -> dict[str, float]:
    """Return `chance` of each task's metric; `rows` has one row for each example."""
    return {
        str(task): chance(metrics[str(task)], per_example.array(examples, "label"))
        for task, examples in rows.groupby("task")
    }


@functools.lru_cache(maxsize=2)
def _weights(n: int) -> NDArray[np.int16]:
    """Return bootstrap counts of examples, (resamples, n)."""
    return bootstrap_counts(n, RESAMPLES, np.random.default_rng(derive(0, "chance")))
