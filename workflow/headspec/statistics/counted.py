"""Metrics that depend on counts alone, for many predictions and many samples at once.

Accuracy, F1 and Matthews' correlation follow from how many examples of a sample have a label, have a
prediction, and have both; metrics of words from how many units its sentences have; that of pairs from how
many are right. The counts of all predictions in all samples are one product of matrices, exact in float32,
so that scores are those of `headspec.statistics.metrics`, to the bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headspec.statistics import unit_counts

Floats = NDArray[np.float64]
Counted = list[NDArray]

#: metric: how it follows from the counts
KINDS = {"accuracy": "share", "pair_accuracy": "share", "f1": "f1", "matthews": "matthews"} | {
    metric: ratio.kind for metric, ratio in unit_counts.RATIOS.items()
}
METRICS = tuple(KINDS)
#: most weights converted to float32 at a time
CHUNK = 2**22


def scores(metric: str, label: Floats, predictions: Floats, weights: NDArray[np.integer]) -> Floats:
    """Scores (resamples, sets) of `predictions` in weighted samples.

    Parameters
    ----------
    metric : one of `METRICS`
    label : (n,), fewer than 2^23 examples
    predictions : (sets, n)
    weights : (resamples, n)
        Number of times that each example occurs in each sample; a sample has fewer than 2^23 examples.
    """
    of_label, of_predictions = _flags(metric, label, predictions)
    columns = np.concatenate([np.stack(of_label), *of_predictions]).astype(np.float32).T  # (n, columns)
    rows = max(1, CHUNK // len(label))
    counts = np.concatenate(
        [weights[at : at + rows].astype(np.float32) @ columns for at in range(0, len(weights), rows)]
    ).astype(np.float64)
    a = len(of_label)
    parts = np.split(counts[:, a:], len(of_predictions), axis=1)
    return _score(metric, [counts[:, [i]] for i in range(a)], parts)


def shuffled(metric: str, label: Floats, predictions: Floats, source: NDArray[np.integer]) -> Floats:
    """Scores (resamples, sets, k) of k alternative predictions that are shuffled within each example.

    Slots and alternatives that follow from the others are not counted: every alternative is in one slot, and
    every slot has one alternative.

    Parameters
    ----------
    metric : one of `METRICS`
    label : (n,), fewer than 2^23 examples
    predictions : (sets, n, k)
    source : (resamples, n, k)
        Index of the alternative that each slot takes, a permutation of all.
    """
    k, sets = predictions.shape[-1], len(predictions)
    of_label, of_predictions = _flags(metric, label, np.concatenate(np.moveaxis(predictions, -1, 0)))
    flags = np.stack(of_predictions, dtype=np.float32).reshape(-1, k, sets, len(label))
    columns = np.moveaxis(flags, 1, 0).reshape(k, -1, len(label))  # (k, parts * sets, n)
    rest, slots = columns.sum(axis=(0, 2)), []
    for slot in range(k - 1):
        counts = np.broadcast_to(columns[-1].sum(axis=-1), (len(source), columns.shape[1])).copy()
        for alternative in range(k - 1):
            taken = (source[..., slot] == alternative).astype(np.float32)
            counts += taken @ (columns[alternative] - columns[-1]).T
        rest = rest - counts
        slots.append(counts)
    counts = np.stack([*slots, rest], axis=-1).astype(np.float64)  # (resamples, parts * sets, k)
    parts = np.split(counts, len(of_predictions), axis=1)
    return _score(metric, [flag.sum(dtype=np.float64) for flag in of_label], parts)


def _flags(metric: str, label: Floats, predictions: Floats) -> tuple[Counted, Counted]:
    """What is counted of every example: (n,) of the labels, (sets, n) of the `predictions` (sets, n)."""
    if metric in unit_counts.RATIOS:
        kind, place, _ = unit_counts.RATIOS[metric]
        predicted = [unit_counts.counts(predictions, 1)] if kind == "f1" else []
        return [unit_counts.counts(label, 0)], [unit_counts.counts(predictions, place), *predicted]
    right, every = predictions == label, np.ones(len(label), dtype=bool)
    if metric == "accuracy":
        return [every], [right]
    if metric == "pair_accuracy":
        return [every], [unit_counts.preferred(predictions)]
    if metric == "f1":
        actual, positive = label == 1, predictions == 1
        return [actual], [actual & positive, positive]
    classes = np.union1d(label, predictions)
    return [every, *(label == c for c in classes)], [right, *(predictions == c for c in classes)]


def _score(metric: str, of_label: list, of_predictions: list) -> Floats:
    """The metric of counts, in the order of `_flags`; 0 where it is undefined."""
    correct, *predicted = of_predictions
    if KINDS[metric] == "share":
        numerator, denominator = correct, of_label[0]
    elif KINDS[metric] == "f1":
        numerator, denominator = 2 * correct, of_label[0] + predicted[0]
    else:
        total, *actual = of_label
        spread = [total**2 - sum(margin**2 for margin in margins) for margins in (actual, predicted)]
        varies = (np.minimum(*spread) > 1e-12 * total**2).astype(float)
        covariance = correct * total - sum(a * p for a, p in zip(actual, predicted, strict=True))
        numerator = covariance
        denominator = varies * np.sqrt(np.abs(spread[0])) * np.sqrt(np.abs(spread[1]))
    denominator = np.broadcast_to(denominator, numerator.shape)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
