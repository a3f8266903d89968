"""Proportions of cases that come in clusters, such as words in sentences."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

Floats = NDArray[np.float64]


def effective_cases(
    sums: ArrayLike, cases: ArrayLike, squares: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Return means (...) of scores and the effective numbers (...) of independent cases.

    The mean is a ratio of sums over clusters: `sums` (clusters, ...) of scores and numbers of `cases`
    (clusters,), at least 1. Its variance, from the clusters' residuals, is compared with that of independent
    cases (Korn and Graubard 1998), which uses mean squared scores, `squares` (...), by default the means, as
    for scores of 0 and 1. If all clusters have the same mean, the variance is unknown, and only clusters
    count.
    """
    sums, cases = np.asarray(sums, dtype=float), np.asarray(cases, dtype=float)
    clusters, n = len(cases), cases.sum()
    mean = sums.sum(axis=0) / n
    residuals = sums - np.multiply.outer(cases, mean)
    variance = np.square(residuals).sum(axis=0) * clusters / max(clusters - 1, 1) / n**2
    case_variance = (mean if squares is None else np.asarray(squares, dtype=float)) - mean**2
    effective = np.full_like(variance, clusters)
    np.divide(case_variance, variance, out=effective, where=variance > 1e-12 / n)
    return mean, np.clip(effective, 1, n)


def exceeding(mean: ArrayLike, effective: ArrayLike, threshold: ArrayLike) -> Floats:
    """Return one-sided p (...) of the exact binomial test that true means (...) are at most `threshold`.

    The tail is the incomplete beta function, so that effective numbers need not be whole.
    """
    mean, effective = np.asarray(mean, dtype=float), np.asarray(effective, dtype=float)
    hits = mean * effective
    p = betainc(np.maximum(hits, 1e-9), effective - hits + 1, np.clip(threshold, 0, 1))
    return np.where(hits > 0, p, 1.0)


def exceeding_pairs(mean: ArrayLike, squares: ArrayLike, effective: ArrayLike, margin: float) -> Floats:
    """Return one-sided p-values that one method's true rate of hits exceeds another's by at most `margin`.

    A case's score is the first method's hit (1 or 0) minus the second's; `squares`, the mean of its square,
    is the share d of cases in which they differ. Among these, the first method's hits are binomial, with
    probability 1/2 + margin / (2 d) at the margin; with margin 0 this is McNemar's exact test.
    """
    mean, differing = np.asarray(mean, dtype=float), np.asarray(squares, dtype=float)
    possible = differing > margin
    share = np.where(possible, differing, 1.0)
    p = exceeding((share + mean) / 2 / share, share * effective, 0.5 + margin / 2 / share)
    return np.where(possible, p, 1.0)


def exact_interval(mean: ArrayLike, effective: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return Clopper-Pearson intervals (1934), (...) each, of proportions `mean` of `effective` cases."""
    mean, effective = np.asarray(mean, dtype=float), np.asarray(effective, dtype=float)
    hits, tail = mean * effective, (1 - confidence) / 2
    misses = effective - hits
    low = betaincinv(np.maximum(hits, 1e-9), misses + 1, tail)
    high = betaincinv(hits + 1, np.maximum(misses, 1e-9), 1 - tail)
    return np.where(hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)
