"""Resampling of examples, and what is read off it: intervals, p-values, corrections."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headspec.metrics import score

Floats = NDArray[np.float64]

#: permuted predictions held at one time
CHUNK = 2**22


def bootstrap_counts(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """How often each of n examples (columns) is drawn in each resample (rows) of n."""
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.int16)


def permuted_scores(
    metric: str, label: Floats, predictions: Floats, resamples: int, rng: np.random.Generator
) -> Floats:
    """Metrics of k alternative predictions after shuffling them within every example.

    Parameters
    ----------
    metric : str
        One of `headspec.metrics`.
    label : (n,)
    predictions : (n, k)
    resamples : int
    rng : Generator

    Returns
    -------
    (resamples, k)
    """
    n, k = predictions.shape
    identity = np.arange(k, dtype=np.uint8)
    parts = [np.empty((0, k))]
    for start in range(0, resamples, rows := max(1, CHUNK // (n * k))):
        shape = (min(rows, resamples - start), n, k)
        # which alternative each slot gets, then every slot as a 0/1-weighted sample of all n * k
        source = rng.permuted(np.broadcast_to(identity, shape), axis=-1)
        taken = [(source[..., [slot]] == identity).reshape(len(source), n * k) for slot in range(k)]
        stacked = np.repeat(label, k), predictions.ravel()
        parts.append(np.stack([score(metric, *stacked, weights) for weights in taken], axis=-1))
    return np.concatenate(parts)


def paired_differences(
    metric: str, label: Floats, method: Floats, base: Floats, resamples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Differences of two methods' metrics on resampled examples, and with their predictions swapped.

    Examples with the same label and the same predictions are alike, so it is enough to draw how many of
    each kind there are (multinomial) and how many of them are swapped (binomial).

    Parameters
    ----------
    metric : str
        One of `headspec.metrics`.
    label : (n,)
    method, base : (S, n)
        Predictions of S seeds.

    Returns
    -------
    bootstrap : (resamples, S)
        Examples drawn with replacement, the same ones for both methods and all seeds.
    null : (resamples, S)
        In every example the predictions of the two are swapped or not, of all seeds together: seeds
        err on the same examples, and swapped one by one their differences would average out.
    """
    kinds, counts = np.unique(np.vstack([label, method, base]), axis=1, return_counts=True)
    label, method, base = kinds[0], kinds[1 : 1 + len(method)], kinds[1 + len(method) :]
    drawn = rng.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
    swapped = rng.binomial(counts, 0.5, size=(resamples, len(counts)))
    here, there = np.hstack([counts - swapped, swapped]), np.hstack([swapped, counts - swapped])
    bootstrap, null = [], []
    for one, other in zip(method, base, strict=True):
        bootstrap.append(score(metric, label, one, drawn) - score(metric, label, other, drawn))
        both = np.tile(label, 2), np.concatenate([one, other])
        null.append(score(metric, *both, here) - score(metric, *both, there))
    return np.stack(bootstrap, axis=1), np.stack(null, axis=1)


def interval(samples: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Percentile interval over the first axis; nan where a resample has no defined value."""
    low, high = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


def p_value(observed: ArrayLike, null: Floats) -> Floats:
    """Two-sided permutation p: (1 + null values at least as far from 0) / (1 + permutations)."""
    reached = np.abs(null) >= np.abs(observed) * (1 - 1e-9) - 1e-12  # equal but for rounding counts
    return np.where(np.isnan(observed), np.nan, (1 + reached.sum(axis=0)) / (1 + len(null)))


def holm(p: ArrayLike) -> Floats:
    """Holm's step-down correction (1979) of p-values (n,); nan stays nan and is not counted."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    corrected = np.full_like(p, np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected
