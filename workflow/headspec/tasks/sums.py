"""Ratios of sums, for metrics of several kinds of tasks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return `numerator / denominator`, of their common shape, and 0 where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)


def mean(label_sums: Floats, prediction_sums: Floats) -> Floats:
    """Divide the first sum of predictions (..., sums) by the first of labels, as right ones by all: (...)."""
    return ratio(prediction_sums[..., 0], label_sums[..., 0])


def f1(label_sums: Floats, prediction_sums: Floats) -> Floats:
    """Return F1, (...), from sums (..., 1) of gold units, and (..., 2) of right and predicted units."""
    return ratio(2 * prediction_sums[..., 0], label_sums[..., 0] + prediction_sums[..., 1])


def columns(*rows: NDArray[Any]) -> NDArray[Any]:
    """Stack rows (..., n) as columns (..., n, columns), each contiguous in memory."""
    return np.moveaxis(np.stack(rows), 0, -1)


def taken(places: int | slice, label: Floats, predictions: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Return `each` label, and the numbers of predictions (..., n, numbers) at these places."""
    return each(label), predictions[..., places if isinstance(places, slice) else [places]]


def each(label: Floats) -> NDArray[np.bool_]:
    """Return a column of labels whose sum is the number of examples, (n, 1)."""
    return np.ones((len(label), 1), dtype=bool)
