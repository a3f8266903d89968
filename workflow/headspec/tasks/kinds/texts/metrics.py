"""Metrics for classes, scores, and sets of labels.

Classes have accuracy, F1 of class 1, and Matthews' correlation for any number of classes. Scores have
Pearson's correlation, and Spearman's of ranks. Sets of labels have metrics of rows of 0 and 1 and the
predicted probabilities of each label.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric, columns, each, f1, mean, ratio

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def _right(label: Floats, predictions: Floats) -> tuple[Flags, Flags]:
    return each(label), columns(predictions == label)


def _positive(label: Floats, predictions: Floats) -> tuple[Flags, Flags]:
    actual, positive = label == 1, predictions == 1
    return columns(actual), columns(actual & positive, positive)


def _table(label: Floats, predictions: Floats) -> tuple[Flags, Flags]:
    """Return indicators of examples and of each class; of right predictions and each predicted class."""
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


def _rarest(label: Floats) -> Floats:
    """Predict the rarest class."""
    classes, counts = np.unique(label, return_counts=True)
    return np.full_like(label, classes[counts.argmin()])


CLASSIFICATION_METRICS = {
    "accuracy": Metric("accuracy", _right, mean, _frequent, worst=_rarest),
    "f1": Metric("F1", _positive, f1, np.ones_like),
    "matthews": Metric("Matthews", _table, _matthews, _frequent, worst=_frequent),
}


def _centred(values: Floats) -> Floats:
    """Return deviations from the mean, 0 if within rounding, so that differences of sums are exact."""
    deviation = values - values.mean(axis=-1, keepdims=True)
    norm, size = (np.linalg.norm(each, axis=-1, keepdims=True) for each in (deviation, values))
    return np.where(norm > 1e-13 * size, deviation, 0)


def _moments(label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
    """Return ones, values and squares of labels; values and squares of predictions, and products."""
    x, y = _centred(label), _centred(predictions)
    return columns(np.ones_like(x), x, x**2), columns(y, y**2, x * y)


def _pearson(label_sums: Floats, prediction_sums: Floats) -> Floats:
    n, x, xx = np.moveaxis(label_sums, -1, 0)
    y, yy, xy = np.moveaxis(prediction_sums, -1, 0)
    spread = [n * squares - values**2 for values, squares in ((x, xx), (y, yy))]
    varies = (spread[0] > 1e-12 * n * xx) & (spread[1] > 1e-12 * n * yy)  # beyond rounding error
    norms = np.sqrt(np.abs(spread[0])) * np.sqrt(np.abs(spread[1]))
    return np.clip(ratio(n * xy - x * y, varies * norms), -1, 1)


PEARSON = Metric("Pearson", _moments, _pearson, np.zeros_like, worst=np.zeros_like)
SPEARMAN = Metric("Spearman", _moments, _pearson, np.zeros_like, ranked=True, worst=np.zeros_like)
REGRESSION_METRICS = {"pearson": PEARSON, "spearman": SPEARMAN}


#: minimum probability of a predicted label
THRESHOLD = 0.5


def _per_label(label: Floats, predictions: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return counts of each label, (n, labels); of right and all predictions, (..., n, 2 * labels)."""
    actual, predicted = label == 1, predictions >= THRESHOLD
    return actual, np.concatenate([actual & predicted, predicted], axis=-1)


def _together(label: Floats, predictions: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return counts as in `_per_label`, but for all labels together, (n, 1) and (..., n, 2)."""
    actual, predicted = label == 1, predictions >= THRESHOLD
    right = (actual & predicted).sum(axis=-1)
    return actual.sum(axis=-1)[:, None], np.stack([right, predicted.sum(axis=-1)], axis=-1)


def _macro(label_sums: Floats, prediction_sums: Floats) -> Floats:
    right, predicted = np.split(prediction_sums, 2, axis=-1)
    mean: Floats = ratio(2 * right, label_sums + predicted).mean(axis=-1)
    return mean


def _ranking_precision(label: Floats, predictions: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    return each(label), average_precision(label, predictions)[..., None]


def average_precision(label: Floats, predictions: Floats) -> Floats:
    """Return label-ranking average precision (Tsoumakas et al. 2010), (..., n), as in scikit-learn.

    For each of an example's labels, the share of its labels among those at least as likely, averaged; 1 for
    examples without labels. `label` is (n, labels), `predictions` (..., n, labels).
    """
    order = np.argsort(-predictions, axis=-1, kind="stable")
    ordered = np.take_along_axis(predictions, order, axis=-1)
    right = np.take_along_axis(np.broadcast_to(label, predictions.shape), order, axis=-1)
    # ties have the rank of their last label
    places = np.arange(label.shape[-1])
    last = np.full(ordered.shape, places[-1])
    last[..., :-1] = np.where(ordered[..., :-1] != ordered[..., 1:], places[:-1], places[-1])
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    among = np.take_along_axis(right.cumsum(axis=-1), last, axis=-1) / (last + 1)
    n = label.sum(axis=-1)
    return np.where(n > 0, (right * among).sum(axis=-1) / np.maximum(n, 1), 1.0)


def _most_frequent(label: Floats) -> Floats:
    """Predict the set of labels with the best micro F1 for all examples."""
    frequency = label.sum(axis=0)
    order = np.argsort(-frequency, kind="stable")
    sizes = np.arange(1, len(order) + 1)
    scores = 2 * frequency[order].cumsum() / (sizes * len(label) + frequency.sum())
    chosen = np.zeros(len(order))
    chosen[order[: scores.argmax() + 1]] = 1
    return np.broadcast_to(chosen, label.shape)


def _good_ranking(label: Floats) -> Floats:
    """Predict one ranking for all examples, built greedily to maximise average precision.

    It is not always the best, but ranking by frequency can be much worse if labels co-occur.
    """
    share = label / np.maximum(label.sum(axis=1, keepdims=True), 1)
    scores, among = np.full(label.shape[1], -np.inf), np.zeros(len(label))
    for place in range(label.shape[1]):
        best = np.where(np.isinf(scores), (among + 1) @ share, -1).argmax()
        scores[best] = 1 - place / label.shape[1]
        among += label[:, best]
    return np.broadcast_to(scores, label.shape)


#: why F1 is below chance early in training, and the metric without a threshold
EARLY = f"the model gives few labels a probability of {THRESHOLD:g} yet", "lrap"
LABELS_METRICS = {
    "micro_f1": Metric("micro F1", _together, f1, _most_frequent, several=True, early=EARLY),
    "macro_f1": Metric("macro F1", _per_label, _macro, np.ones_like, several=True, early=EARLY),
    "lrap": Metric("LRAP", _ranking_precision, mean, _good_ranking, several=True),
}
