"""What metrics of several kinds of tasks have in common: ratios of sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """`numerator / denominator`, and 0 where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)


def mean(of_label: Floats, of_predictions: Floats) -> Floats:
    """The first sum of predictions by the first of labels, such as right ones by all."""
    return ratio(of_predictions[..., 0], of_label[..., 0])


def f1(of_label: Floats, of_predictions: Floats) -> Floats:
    """F1, by how many there are, and how many are right and how many are predicted."""
    return ratio(2 * of_predictions[..., 0], of_label[..., 0] + of_predictions[..., 1])


def columns(*of_examples: NDArray) -> NDArray:
    """What is summed, (..., n) each, as columns (..., n, columns); in memory one after the other."""
    return np.moveaxis(np.stack(of_examples), 0, -1)


def each(label: Floats) -> NDArray[np.bool_]:
    """The column of labels whose sum is the number of examples."""
    return np.ones((len(label), 1), dtype=bool)
