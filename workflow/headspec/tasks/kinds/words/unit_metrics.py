"""Metrics of the units of sentences: shares of right units, and F1.

Labels have the number of units and the counts of the blind prediction, predictions their counts.
"""

import numpy as np
from numpy.typing import NDArray

from headspec.tasks import sums
from headspec.tasks.metrics import Metric

Floats = NDArray[np.float64]


def _blind(label: Floats) -> Floats:
    return label[:, 1:]


def share(name: str, place: int = 0) -> Metric:
    """Return the share of right units, whose number is at a place of the prediction."""

    def summed(label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
        return label[:, :1], predictions[..., [place]]

    return Metric(name, summed, sums.mean, _blind, several=True)


def f1(name: str) -> Metric:
    """Return F1 of units; a prediction has the numbers of right and predicted units."""

    def summed(label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
        return label[:, :1], predictions

    return Metric(name, summed, sums.f1, _blind, several=True)
