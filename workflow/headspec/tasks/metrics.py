"""Metrics as functions of sums over examples, for many predictions and samples at once.

Accuracy follows from the number of right predictions, F1 from three counts, Pearson's correlation from sums
of values, squares and products. Each example is a row of summands in a matrix, whose product with weights
gives the sums in all samples. `METRICS` of a kind of task lists metrics by name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headspec.errors import NumericalError
from headspec.registry import Registry
from headspec.tasks import parts

Floats = NDArray[np.float64]

#: maximum number of weights converted to floats at once
CHUNK = 2**22
#: float32 represents every integer up to this one
EXACT = 2**24


@dataclass(frozen=True)
class Metric:
    """A function of sums over examples.

    Attributes
    ----------
    name : in figures
    summed : summands of labels (n,) or (n, values), and of predictions (sets, n) or (sets, n, values):
        (n, a) and (sets, n, b)
    value : the metric (...) from sums (..., a) and (..., b); 0 where it is undefined
    blind : the best constant prediction for labels, (n,) or (n, values)
    several : whether labels and predictions have several values per example
    ranked : whether `summed` receives ranks within the sample, (resamples, n), of labels and predictions
    early : for metrics that stay below chance in short training: why, and the metric that rises first
    worst : the worst constant prediction, for metrics by which only reversed predictions are even worse
    """

    name: str
    summed: Callable[[Floats, Floats], tuple[NDArray[Any], NDArray[Any]]]
    value: Callable[[Floats, Floats], Floats]
    blind: Callable[[Floats], Floats]
    several: bool = False
    ranked: bool = False
    early: tuple[str, str] | None = None
    worst: Callable[[Floats], Floats] | None = None


def files(names: Iterable[str], own: Iterable[str]) -> list[str]:
    """Return the modules of the metrics `names` that their tasks, of kinds `own`, take from other kinds."""
    reached = {path for kind in own if (path := parts.file_of(kind, "METRICS"))}
    missing = set(names).difference(*map(_defined, reached))
    return [str(path) for path in parts.files_of("METRICS") if missing.intersection(_defined(path))]


def _defined(path: Path) -> dict[str, Metric]:
    """Return the metrics in a module, of one kind of task or of a family."""
    groups = (value for name, value in vars(parts.loaded(path)).items() if f"_{name}".endswith("_METRICS"))
    return {name: each for metrics in groups for name, each in metrics.items()}


@cache
def _known(files: tuple[Path, ...]) -> Registry[Metric]:
    """Return all metrics, cached per set of modules."""
    return Registry("metric", {name: each for path in files for name, each in _defined(path).items()})


def metric(by: str | Metric) -> Metric:
    """Return the metric with this name, or the given metric; raise ConfigError if there is none."""
    return by if isinstance(by, Metric) else _known(tuple(parts.files_of("METRICS")))[by]


def bootstrap_counts(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """Draw bootstrap counts of n examples, (resamples, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.int16)


def resampled_scores(
    by: str | Metric, label: ArrayLike, predictions: ArrayLike, weights: ArrayLike
) -> Floats:
    """Return scores (resamples, sets) of predictions in weighted samples.

    Parameters
    ----------
    by : the metric, or its name
    label : (n,) or (n, values)
    predictions : (sets, n) or (sets, n, values)
    weights : (resamples, n), how often each example occurs in each sample

    Raises
    ------
    ConfigError
        There is no metric with this name.
    NumericalError
        A label or a prediction is not finite.
    ValueError
        There are no examples, or shapes do not match each other or the metric.
    """
    metric, label, predictions = _scorable(by, label, predictions)
    weights = np.asarray(weights)
    if metric.ranked:
        return _by_ranks(metric, label, predictions, weights)
    summed_label, summed_predictions = metric.summed(label, predictions)
    columns = _columns(summed_label, summed_predictions, weights)
    rows = max(1, CHUNK // len(label))
    sums = np.concatenate(
        [weights[at : at + rows].astype(columns.dtype) @ columns for at in range(0, len(weights), rows)]
    ).astype(float)
    a = summed_label.shape[-1]
    return metric.value(sums[:, None, :a], sums[:, a:].reshape(len(sums), len(predictions), -1))


def scores(by: str | Metric, label: ArrayLike, predictions: ArrayLike) -> Floats:
    """Return scores (sets,) of predictions, counting each example once; otherwise like `resampled_scores`."""
    once = np.ones((1, len(np.asarray(label))), dtype=bool)
    by_set: Floats = resampled_scores(by, label, predictions, once)[0]
    return by_set


def shuffled_scores(
    by: str | Metric, label: ArrayLike, predictions: ArrayLike, source: NDArray[np.integer]
) -> Floats:
    """Return scores (resamples, sets, k) of k alternative predictions, shuffled within each example.

    Each alternative is in one slot, so that sums for the last slot and alternative follow from the others.
    Arguments and errors are as for `resampled_scores`, except:

    Parameters
    ----------
    predictions : (sets, k, n) or (sets, k, n, values)
    source : (resamples, n, k), index of the alternative in each slot, a permutation
    """
    predictions = np.asarray(predictions, dtype=float)
    sets, k, n = predictions.shape[:3]
    # treat each alternative of an example as an example, present in a slot or not
    every = predictions.reshape(sets, k * n, *predictions.shape[3:])
    metric, label, every = _scorable(by, np.concatenate([np.asarray(label)] * k), every)
    if metric.ranked:
        taken = (source[:, None, :, :] == np.arange(k)[:, None, None]).reshape(len(source), k * n, k)
        return np.stack([_by_ranks(metric, label, every, taken[..., slot]) for slot in range(k)], axis=-1)
    summed_label, summed_predictions = metric.summed(label, every)
    columns = _columns(summed_label[:, :0], summed_predictions, np.ones((1, k * n), dtype=int))
    columns = columns.T.reshape(-1, k, n)
    rest, slots = columns.sum(axis=(1, 2), dtype=float), []
    for slot in range(k - 1):
        sums = np.broadcast_to(columns[:, -1].sum(axis=-1), (len(source), len(columns))).copy()
        for alternative in range(k - 1):
            taken = (source[..., slot] == alternative).astype(columns.dtype)
            sums += taken @ (columns[:, alternative] - columns[:, -1]).T
        rest = rest - sums
        slots.append(sums.astype(float))
    by_slot = np.stack([*slots, rest], axis=1).reshape(len(source), k, sets, -1)
    return np.moveaxis(metric.value(summed_label[:n].sum(axis=0, dtype=float), by_slot), 1, 2)


def _scorable(by: str | Metric, label: ArrayLike, predictions: ArrayLike) -> tuple[Metric, Floats, Floats]:
    """Return the metric and its arguments as arrays; raise as `resampled_scores`."""
    chosen, name = metric(by), by.name if isinstance(by, Metric) else by
    label, predictions = np.asarray(label, dtype=float), np.asarray(predictions, dtype=float)
    fits = label.ndim == predictions.ndim - 1 == 1 + chosen.several and predictions.shape[1] == len(label)
    if not fits or not len(label):
        each = "several numbers" if chosen.several else "one of each"
        raise ValueError(
            f"{name}: got labels of shape {label.shape} and predictions of shape {predictions.shape[1:]}, "
            f"expected {each} for at least one example"
        )
    for what, values in {"labels": label[None], "predictions": predictions}.items():
        if not (finite := np.isfinite(values)).all():
            bad = len(label) - np.count_nonzero(finite.all(axis=(0, *range(2, values.ndim))))
            raise NumericalError(f"{name}: {bad} of {len(label)} {what} are nan or infinite")
    return chosen, label, predictions


def _columns(
    summed_label: NDArray[Any], summed_predictions: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Return summands, (n, a + sets * b), in float32 if its sums are exact, in half the time."""
    (n, a), (sets, _, b) = summed_label.shape, summed_predictions.shape
    total = float(weights.sum(axis=1, dtype=float).max())
    whole = weights.dtype.kind in "bui" and all(
        _sums_are_exact(each, total) for each in (summed_label, summed_predictions)
    )
    columns = np.empty((a + sets * b, n), dtype=np.float32 if whole else np.float64)
    columns[:a] = summed_label.T
    columns[a:].reshape(sets, b, n)[:] = np.moveaxis(summed_predictions, 1, 2)
    return columns.T


def _sums_are_exact(values: NDArray[Any], total: float) -> bool:
    """Return whether sums of `values`, with integer weights up to `total`, are exact in float32."""
    if not values.size:
        return True
    largest = max(float(values.max()), -float(values.min()))
    return largest * total < EXACT and (values.dtype.kind in "bui" or bool((values == np.rint(values)).all()))


def _by_ranks(metric: Metric, label: Floats, predictions: Floats, weights: NDArray[Any]) -> Floats:
    """Return scores (resamples, sets) from ranks within each sample."""
    rows = max(1, CHUNK // 8 // len(label))
    parts = []
    for at in range(0, len(weights), rows):
        part = weights[at : at + rows].astype(float)
        ranks = _midranks(label, part)
        by_set = []
        for prediction in predictions:
            summed = metric.summed(ranks, _midranks(prediction, part))  # (resamples, n, columns) each
            by_set.append(metric.value(*(np.einsum("rn,rnk->rk", part, columns) for columns in summed)))
        parts.append(np.stack(by_set, axis=-1))
    return np.concatenate(parts)


def _midranks(values: Floats, weights: Floats) -> Floats:
    """Return mid-ranks (resamples, n) of values (n,) in samples that contain them `weights` times."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    last = np.flatnonzero(np.diff(group[order], append=group.max() + 1))  # the last of each group of ties
    up_to = np.cumsum(weights[:, order], axis=1)[:, last]  # (resamples, groups)
    below = np.pad(up_to[:, :-1], ((0, 0), (1, 0)))
    return ((below + up_to + 1) / 2)[:, group]


@overload
def score(by: str | Metric, label: ArrayLike, prediction: ArrayLike, weights: None = None) -> float: ...
@overload
def score(by: str | Metric, label: ArrayLike, prediction: ArrayLike, weights: ArrayLike) -> Floats: ...
def score(
    by: str | Metric, label: ArrayLike, prediction: ArrayLike, weights: ArrayLike | None = None
) -> float | Floats:
    """Return the score of a prediction, (n,) or (n, values); arguments are as for `resampled_scores`.

    It is one number, or (resamples,) with `weights`; 0 where the metric is undefined because nothing varies
    (constant predictions, no positives).
    """
    predictions = np.asarray(prediction, dtype=float)[None]
    if weights is None:
        return float(scores(by, label, predictions)[0])
    return resampled_scores(by, label, predictions, weights)[:, 0]


@overload
def chance(by: str | Metric, label: ArrayLike, weights: None = None) -> float: ...
@overload
def chance(by: str | Metric, label: ArrayLike, weights: ArrayLike) -> Floats: ...
def chance(by: str | Metric, label: ArrayLike, weights: ArrayLike | None = None) -> float | Floats:
    """Return the score of the best constant prediction, with shapes and errors of `score`.

    The constant is chosen once, on all of `label`, so that weighted chance pairs with a weighted `score`.
    """
    metric, label, _ = _scorable(by, label, np.asarray(label)[None])
    return score(metric, label, metric.blind(label), weights)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return `numerator / denominator`, in their common shape, and 0 where the denominator is not above 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)


def mean(label_sums: Floats, prediction_sums: Floats) -> Floats:
    """Return the first sum of predictions (..., sums) divided by that of labels, such as right by all."""
    return ratio(prediction_sums[..., 0], label_sums[..., 0])


def f1(label_sums: Floats, prediction_sums: Floats) -> Floats:
    """Return F1, (...), from sums (..., 1) of gold units, and (..., 2) of right and predicted units."""
    return ratio(2 * prediction_sums[..., 0], label_sums[..., 0] + prediction_sums[..., 1])


def columns(*rows: NDArray[Any]) -> NDArray[Any]:
    """Stack rows (..., n) as columns (..., n, columns), each contiguous in memory."""
    return np.moveaxis(np.stack(rows), 0, -1)


def taken(places: int | slice, label: Floats, predictions: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Return summands: `each` label, and the numbers at `places` of predictions, (..., n, numbers)."""
    return each(label), predictions[..., places if isinstance(places, slice) else [places]]


def each(label: Floats) -> NDArray[np.bool_]:
    """Return a column of ones, (n, 1), whose sum is the number of examples."""
    return np.ones((len(label), 1), dtype=bool)
