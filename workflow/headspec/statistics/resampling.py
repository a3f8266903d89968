"""Resampling of examples; intervals, p-values and their correction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headspec.tasks.metrics import score, shuffled_scores

Floats = NDArray[np.float64]

#: corrected p below which figures and verdicts count a difference
SIGNIFICANCE = 0.05
#: most permuted predictions in memory at a time
CHUNK = 2**22


class Units(NamedTuple):
    """What is drawn: groups of examples, or each example for itself.

    Attributes
    ----------
    number : of units
    of : (n,) unit of every example; or a slice of all, if each is one
    """

    number: int
    of: NDArray[np.intp] | slice = slice(None)


def permuted_scores(
    metric: str,
    label: Floats,
    predictions: Floats,
    resamples: int,
    rng: np.random.Generator,
    units: Units | None = None,
) -> Floats:
    """Metrics of k alternative predictions after shuffling them within each example.

    All sets of alternatives are shuffled in the same way. Draws depend only on `rng`, the number of units
    and k, so that seeds evaluated on the same examples can be shuffled in the same way too: they share
    errors, which would average out if each were shuffled separately.

    Parameters
    ----------
    metric : str
    label : (n,) or (n, values)
    predictions : (sets, k, n) or (sets, k, n, values)
    resamples : int
    rng : Generator
    units : whose examples are shuffled alike; each example by default

    Returns
    -------
    (resamples, sets, k)
    """
    sets, k, n = predictions.shape[:3]
    chunks = [np.empty((0, sets, k))]
    units = units or Units(n)
    for start in range(0, resamples, rows := max(1, CHUNK // (n * k))):
        drawn = permutations((min(rows, resamples - start), units.number, k), rng)
        chunks.append(shuffled_scores(metric, label, predictions, drawn[:, units.of]))
    return np.concatenate(chunks)


def permutations(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Random permutations of k indices, (..., k), the same as those of ``rng.permuted``.

    Two indices it swaps or not by the lowest of 32 random bits, which are drawn here all at once.
    """
    *size, k = shape
    if k != 2:
        return rng.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), shape), axis=-1)
    second = (rng.integers(2**32, size=size, dtype=np.uint32) & 1).astype(np.uint8)
    return np.stack([1 - second, second], axis=-1)


def paired_differences(
    metric: str, label: Floats, method: Floats, base: Floats, resamples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Differences between two methods' metrics on resampled examples, and with predictions swapped.

    Examples with the same label and the same predictions are of one kind, so it is enough to draw the
    number of examples of each kind (multinomial), and the number of these that are swapped (binomial).

    Parameters
    ----------
    metric : str
    label : (n,) or (n, values)
    method, base : (S, n) or (S, n, values)
        Predictions of S seeds.

    Returns
    -------
    bootstrap : (resamples, S)
        Examples drawn with replacement, the same ones for both methods and all seeds.
    null : (resamples, S)
        In each example, the predictions of the two methods are swapped or not, for all seeds together:
        seeds err on the same examples, and their differences would average out if each seed were
        swapped separately.
    """
    every = [label, *method, *base]
    # the last of several values comes first in the order of kinds, on which the draws depend
    told_apart = np.column_stack([of if of.ndim == 1 else of[:, ::-1] for of in every])
    _, first, counts = np.unique(told_apart, axis=0, return_index=True, return_counts=True)
    label, method, base = label[first], method[:, first], base[:, first]
    drawn = rng.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
    swapped = rng.binomial(counts, 0.5, size=(resamples, len(counts)))
    here, there = np.hstack([counts - swapped, swapped]), np.hstack([swapped, counts - swapped])
    bootstrap, null = [], []
    for one, other in zip(method, base, strict=True):
        bootstrap.append(score(metric, label, one, drawn) - score(metric, label, other, drawn))
        both = np.concatenate([label, label]), np.concatenate([one, other])
        null.append(score(metric, *both, here) - score(metric, *both, there))
    return np.stack(bootstrap, axis=1), np.stack(null, axis=1)


def interval(samples: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Percentile interval over the first axis; nan where the value of a resample is undefined."""
    low, high = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


def p_value(observed: ArrayLike, null: Floats) -> Floats:
    """Two-sided permutation p: (1 + null values at least as far from 0) / (1 + permutations)."""
    reached = np.abs(null) >= np.abs(observed) * (1 - 1e-9) - 1e-12  # equality up to rounding counts
    return np.where(np.isnan(observed), np.nan, (1 + reached.sum(axis=0)) / (1 + len(null)))


def holm(p: ArrayLike) -> Floats:
    """p-values (n,) with Holm's step-down correction (1979); nan stays nan and is not counted."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    corrected = np.full_like(p, np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected
