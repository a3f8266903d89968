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

    Several sets of alternatives are shuffled alike. Draws depend on `rng`, n and k alone, so that runs
    on the same examples (seeds) can be shuffled alike too: their errors are shared, and shuffled one by
    one they would average out.

    Parameters
    ----------
    metric : str
        One of `headspec.metrics`.
    label : (n,)
    predictions : (sets, n, k)
    resamples : int
    rng : Generator

    Returns
    -------
    (resamples, sets, k)
    """
    _, n, k = predictions.shape
    identity = np.arange(k, dtype=np.uint8)
    parts = [np.empty((0, len(predictions), k))]
    for start in range(0, resamples, rows := max(1, CHUNK // (n * k))):
        # which alternative each slot gets
        source = rng.permuted(np.broadcast_to(identity, (min(rows, resamples - start), n, k)), axis=-1)
        scores = [_shuffled_scores(metric, label, alternatives, source) for alternatives in predictions]
        parts.append(np.stack(scores, axis=1))
    return np.concatenate(parts)


def _shuffled_scores(metric: str, label: Floats, alternatives: Floats, source: NDArray[np.uint8]) -> Floats:
    """Metrics (resamples, k) of `alternatives` (n, k); `source` (resamples, n, k): which one each slot takes.

    Examples whose alternatives all agree are the same in any order: of each kind there is one entry.
    """
    k = alternatives.shape[1]
    varies = (alternatives != alternatives[:, :1]).any(axis=1)
    same = np.stack([label[~varies], alternatives[~varies, 0]])
    kinds, counts = np.unique(same, axis=1, return_counts=True)
    # every slot is a weighted sample of these entries: all alternatives, taken or not, and the kinds
    labels = np.concatenate([np.repeat(label[varies], k), kinds[0]])
    entries = np.concatenate([alternatives[varies].ravel(), kinds[1]])
    source = source[:, varies]
    fixed = np.broadcast_to(counts, (len(source), len(counts)))
    scores = []
    for slot in range(k):
        taken = (source[..., [slot]] == np.arange(k)).reshape(len(source), -1)
        scores.append(score(metric, labels, entries, np.hstack([taken, fixed])))
    return np.stack(scores, axis=-1)


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
