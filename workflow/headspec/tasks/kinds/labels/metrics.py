"""Metrics of sets of labels, from rows of 0 and 1 and predicted probabilities of each label."""

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric
from headspec.tasks.sums import each, f1, mean, ratio

Floats = NDArray[np.float64]

#: least probability of a predicted label
THRESHOLD = 0.5


def _per_label(label: Floats, predictions: Floats) -> tuple[NDArray, NDArray]:
    """Return counts of each label; right predictions and predictions of each."""
    actual, predicted = label == 1, predictions >= THRESHOLD
    return actual, np.concatenate([actual & predicted, predicted], axis=-1)


def _together(label: Floats, predictions: Floats) -> tuple[NDArray, NDArray]:
    """Return counts as `_per_label`, for all labels together."""
    actual, predicted = label == 1, predictions >= THRESHOLD
    right = (actual & predicted).sum(axis=-1)
    return actual.sum(axis=-1)[:, None], np.stack([right, predicted.sum(axis=-1)], axis=-1)


def _macro(label_sums: Floats, prediction_sums: Floats) -> Floats:
    right, predicted = np.split(prediction_sums, 2, axis=-1)
    return ratio(2 * right, label_sums + predicted).mean(axis=-1)


def _ranked(label: Floats, predictions: Floats) -> tuple[NDArray, NDArray]:
    return each(label), average_precision(label, predictions)[..., None]


def average_precision(label: Floats, predictions: Floats) -> Floats:
    """Return label-ranking average precision (Tsoumakas et al. 2010), (..., n), as scikit-learn.

    For each of an example's labels, the share of its labels among those at least as likely, averaged; 1 for
    examples without labels. `label` is (n, labels), `predictions` (..., n, labels).
    """
    order = np.argsort(-predictions, axis=-1, kind="stable")
    ranked = np.take_along_axis(predictions, order, axis=-1)
    right = np.take_along_axis(np.broadcast_to(label, predictions.shape), order, axis=-1)
    # equally likely labels have the rank of the last of them
    places = np.arange(label.shape[-1])
    last = np.full(ranked.shape, places[-1])
    last[..., :-1] = np.where(ranked[..., :-1] != ranked[..., 1:], places[:-1], places[-1])
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
    """Predict one ranking for all examples, in which each next label adds most to average precision.

    This is not always the best; ranking by frequency can be far from it where labels occur together.
    """
    share = label / np.maximum(label.sum(axis=1, keepdims=True), 1)
    scores, among = np.full(label.shape[1], -np.inf), np.zeros(len(label))
    for place in range(label.shape[1]):
        best = np.where(np.isinf(scores), (among + 1) @ share, -1).argmax()
        scores[best] = 1 - place / label.shape[1]
        among += label[:, best]
    return np.broadcast_to(scores, label.shape)


#: why F1 is below chance at first, and the metric without a threshold
EARLY = f"the model gives few labels a probability of {THRESHOLD:g} yet", "lrap"
METRICS = {
    "micro_f1": Metric("micro F1", _together, f1, _most_frequent, several=True, early=EARLY),
    "macro_f1": Metric("macro F1", _per_label, _macro, np.ones_like, several=True, early=EARLY),
    "lrap": Metric("LRAP", _ranked, mean, _good_ranking, several=True),
}
"""Sets of labels.

label_values: 1 for each label that the text has, else 0
prediction_values: probability of each label
"""
