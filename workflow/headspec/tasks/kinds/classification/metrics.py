"""Metrics of classes: accuracy, F1 of class 1, and Matthews' correlation for any number of classes."""

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric
from headspec.tasks.sums import columns, each, f1, mean, ratio

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def _right(label: Floats, predictions: Floats) -> tuple[Flags, Flags]:
    return each(label), columns(predictions == label)


def _positive(label: Floats, predictions: Floats) -> tuple[Flags, Flags]:
    actual, positive = label == 1, predictions == 1
    return columns(actual), columns(actual & positive, positive)


def _table(label: Floats, predictions: Floats) -> tuple[Flags, Flags]:
    """Return counts of examples and of each class; right predictions and counts of each predicted class."""
    classes = np.union1d(label, predictions)
    every = np.ones(len(label), dtype=bool)
    return (
        columns(every, *(label == c for c in classes)),
        columns(predictions == label, *(predictions == c for c in classes)),
    )


def _matthews(label_sums: Floats, prediction_sums: Floats) -> Floats:
    """Return R_K (Gorodkin 2004), from the margins and the diagonal of the confusion matrix."""
    total, actual = label_sums[..., 0], label_sums[..., 1:]
    correct, predicted = prediction_sums[..., 0], prediction_sums[..., 1:]
    spread = [total**2 - (margin**2).sum(axis=-1) for margin in (actual, predicted)]
    varies = (np.minimum(*spread) > 1e-12 * total**2).astype(float)
    covariance = correct * total - (actual * predicted).sum(axis=-1)
    return ratio(covariance, varies * np.sqrt(np.abs(spread[0])) * np.sqrt(np.abs(spread[1])))


def _frequent(label: Floats) -> Floats:
    """Predict the most frequent class: accuracy is its share, and correlation is 0."""
    classes, counts = np.unique(label, return_counts=True)
    return np.full_like(label, classes[counts.argmax()])


METRICS = {
    "accuracy": Metric("accuracy", _right, mean, _frequent),
    "f1": Metric("F1", _positive, f1, np.ones_like),
    "matthews": Metric("Matthews", _table, _matthews, _frequent),
}
