"""Metrics of scores: Pearson's correlation, and Spearman's of ranks."""

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric
from headspec.tasks.sums import columns, ratio

Floats = NDArray[np.float64]


def _centred(values: Floats) -> Floats:
    """Return deviations from the mean, 0 within rounding, so that differences of sums are exact."""
    deviation = values - values.mean(axis=-1, keepdims=True)
    norm, size = (np.linalg.norm(each, axis=-1, keepdims=True) for each in (deviation, values))
    return np.where(norm > 1e-13 * size, deviation, 0)


def _moments(label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
    """Return number, values and squares of labels; values and squares of predictions, and products."""
    x, y = _centred(label), _centred(predictions)
    return columns(np.ones_like(x), x, x**2), columns(y, y**2, x * y)


def _pearson(label_sums: Floats, prediction_sums: Floats) -> Floats:
    n, x, xx = np.moveaxis(label_sums, -1, 0)
    y, yy, xy = np.moveaxis(prediction_sums, -1, 0)
    spread = [n * squares - values**2 for values, squares in ((x, xx), (y, yy))]
    varies = (spread[0] > 1e-12 * n * xx) & (spread[1] > 1e-12 * n * yy)  # beyond rounding error
    norms = np.sqrt(np.abs(spread[0])) * np.sqrt(np.abs(spread[1]))
    return np.clip(ratio(n * xy - x * y, varies * norms), -1, 1)


PEARSON = Metric("Pearson", _moments, _pearson, np.zeros_like)
SPEARMAN = Metric("Spearman", _moments, _pearson, np.zeros_like, ranked=True)
METRICS = {"pearson": PEARSON, "spearman": SPEARMAN}
