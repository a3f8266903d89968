"""Task metrics of one sample, or of many weighted samples of the same predictions at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headspec.errors import NumericalError, listing, nearest
from headspec.statistics import text_counts, unit_counts
from headspec.tasks.continuations.pair_types import METRICS as PAIRS

Floats = NDArray[np.float64]

#: most weights converted to float64 at a time, so that memory does not grow with the resamples
CHUNK = 2**21


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """`numerator / denominator`, and 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _accuracy(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    return _ratio(weights @ (label == prediction), weights.sum(axis=1))


def _f1(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    actual, predicted = label == 1, prediction == 1
    return _ratio(2 * (weights @ (actual & predicted)), weights @ actual + weights @ predicted)


def _matthews(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    """R_K (Gorodkin 2004), from the margins and the diagonal of the confusion matrix."""
    classes = np.union1d(label, prediction)
    actual = weights @ (label[:, None] == classes)  # (resamples, classes)
    predicted = weights @ (prediction[:, None] == classes)
    correct, total = weights @ (label == prediction), weights.sum(axis=1)
    spread = [total**2 - (margin**2).sum(axis=1) for margin in (actual, predicted)]
    varies = (np.minimum(*spread) > 1e-12 * total**2).astype(float)
    covariance = correct * total - (actual * predicted).sum(axis=1)
    return _ratio(covariance, varies * np.sqrt(np.abs(spread[0])) * np.sqrt(np.abs(spread[1])))


def _pearson(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    """Weighted correlation; label and prediction are (n,), or (resamples, n) with one row per sample."""
    total = weights.sum(axis=1)

    def centred(values: Floats) -> tuple[Floats, Floats]:
        mean = _ratio((weights * values).sum(axis=1), total)
        deviation = values - mean[:, None]
        norm = np.sqrt((weights * deviation**2).sum(axis=1))
        varies = norm > 1e-13 * np.sqrt((weights * values**2).sum(axis=1))  # beyond rounding error
        return deviation, norm * varies

    (x, x_norm), (y, y_norm) = centred(label), centred(prediction)
    return np.clip(_ratio((weights * x * y).sum(axis=1), x_norm * y_norm), -1, 1)


def _midranks(values: Floats, weights: Floats) -> Floats:
    """Mid-ranks (resamples, n) of `values` (n,) in samples that contain each value `weights` times."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    last = np.flatnonzero(np.diff(group[order], append=group.max() + 1))  # the last of each group of ties
    up_to = np.cumsum(weights[:, order], axis=1)[:, last]  # (resamples, groups)
    below = np.pad(up_to[:, :-1], ((0, 0), (1, 0)))
    return ((below + up_to + 1) / 2)[:, group]


def _spearman(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    return _pearson(_midranks(label, weights), _midranks(prediction, weights), weights)


def _of_units(metric: str, label: Floats, prediction: Floats, weights: Floats) -> Floats:
    numerator, denominator = unit_counts.summed(metric, label, prediction)
    return _ratio(weights @ numerator, weights @ denominator)


def _pair_accuracy(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    return _ratio(weights @ unit_counts.preferred(prediction), weights.sum(axis=1))


def _logit_difference(label: Floats, prediction: Floats, weights: Floats) -> Floats:
    return _ratio(weights @ prediction, weights.sum(axis=1))


def _of_texts(metric: str, label: Floats, prediction: Floats, weights: Floats) -> Floats:
    return text_counts.scores(metric, prediction, weights)


_of_examples: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
    "pair_accuracy": _pair_accuracy,
    "logit_difference": _logit_difference,
}
METRICS = (
    _of_examples
    | {metric: partial(_of_units, metric) for metric in unit_counts.RATIOS}
    | {metric: partial(_of_texts, metric) for metric in text_counts.METRICS}
)


def bootstrap_counts(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """Number of times that each of n examples is drawn in a resample of n, (resamples, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.int16)


@overload
def score(metric: str, label: ArrayLike, prediction: ArrayLike, weights: None = None) -> float: ...
@overload
def score(metric: str, label: ArrayLike, prediction: ArrayLike, weights: ArrayLike) -> Floats: ...
def score(
    metric: str, label: ArrayLike, prediction: ArrayLike, weights: ArrayLike | None = None
) -> float | Floats:
    """Agreement of predictions with labels.

    Parameters
    ----------
    metric : key of `METRICS`
        F1 is for class 1; Matthews' correlation takes any number of classes. Of pairs, the share of which the
        right one is likelier, ties half, and the mean of the differences.
    label, prediction : (n,)
        Class indices, scores for a correlation, or counts of the units of sentences or of texts. Of pairs, a
        prediction is the difference of log-likelihoods, right less wrong, and labels do not matter.
    weights : (resamples, n), optional
        Number of times that each example occurs in each sample; not negative.

    Returns
    -------
    float, or (resamples,) with `weights`
        A fraction in [0, 1], a correlation in [-1, 1], or a difference. 0 where the metric is undefined
        because nothing varies (constant predictions, no positives).

    Raises
    ------
    NumericalError
        A label or a prediction is not finite.
    ValueError
        The metric is unknown, there is no example, or the numbers of labels and predictions differ.
    """
    label, prediction = np.asarray(label, dtype=float), np.asarray(prediction, dtype=float)
    _require_scorable(metric, label, prediction)
    counts = np.ones((1, label.size)) if weights is None else np.asarray(weights)
    rows = max(1, CHUNK // label.size)
    scores = np.concatenate(
        [
            METRICS[metric](label, prediction, counts[start : start + rows].astype(float))
            for start in range(0, len(counts), rows)
        ]
    )
    return float(scores[0]) if weights is None else scores


def _require_scorable(metric: str, label: Floats, prediction: Floats) -> None:
    if metric not in METRICS:
        raise ValueError(f"metric: got '{metric}', expected {listing(METRICS)}.{nearest(metric, METRICS)}")
    if label.ndim != 1 or label.shape != prediction.shape or not label.size:
        raise ValueError(
            f"{metric}: got labels of shape {label.shape} and predictions of shape {prediction.shape}, "
            "expected one of each for at least one example"
        )
    for name, values in {"labels": label, "predictions": prediction}.items():
        if bad := label.size - np.isfinite(values).sum():
            raise NumericalError(f"{metric}: {bad} of {label.size} {name} are nan or infinite")


@overload
def chance(metric: str, label: ArrayLike, weights: None = None) -> float: ...
@overload
def chance(metric: str, label: ArrayLike, weights: ArrayLike) -> Floats: ...
def chance(metric: str, label: ArrayLike, weights: ArrayLike | None = None) -> float | Floats:
    """Score of the best constant prediction, the best that a model can reach without input.

    Accuracy: the share p of the most frequent class. F1: 2p / (1 + p), where p is the share of class
    1. Matthews' and other correlations: 0. The constant is chosen once, on all of `label`, so that
    weighted chance is a baseline paired with a weighted `score`. Metrics of words and of texts have theirs in
    the labels. Of pairs, that is a difference of 0: half of them, and 0.
    Shapes are those of `score`.
    """
    label = np.asarray(label, dtype=float)
    _require_scorable(metric, label, label)
    if metric in unit_counts.RATIOS:
        return score(metric, label, unit_counts.blind(label), weights)
    if metric in PAIRS:
        return score(metric, label, np.zeros_like(label), weights)
    if metric in text_counts.METRICS:
        return score(metric, label, label, weights)
    classes, counts = np.unique(label, return_counts=True)
    best = 1.0 if metric == "f1" else classes[counts.argmax()]
    return score(metric, label, np.full_like(label, best), weights)
