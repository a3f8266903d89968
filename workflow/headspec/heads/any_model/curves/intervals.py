"""Intervals of a mean over few examples and random sets of heads, and of its difference from such sets.

Values are (sets, n): an estimate is their mean over examples, of losses or, for other metrics, of jackknife
pseudovalues (Tukey 1958). Intervals of a bounded metric stay within its bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

Floats = NDArray[np.float64]
#: skewness / sqrt(n) up to which a mean needs no transformation
SYMMETRIC = 1e-6
#: lowest and highest value of a metric, or None
Bounds = tuple[float, float] | None


def of_mean(values: Floats, confidence: float, bounds: Bounds = None) -> tuple[float, float]:
    """Return the interval of a mean over examples, and over sets of heads if there are several.

    Without bounds, it uses the quantiles of t(n - 1), transformed for skewness (Hall 1992), over examples,
    and those of t(sets - 1) over sets. With bounds, it is the Clopper-Pearson interval of the proportion
    (value - low) / (high - low), with the effective sample size, at most n, for which a proportion has this
    variance (Korn and Graubard 1998): exact for accuracies, also where all predictions are right.

    Parameters
    ----------
    values : (sets, n), of random sets of heads, or of a single set
    """
    sets, n = values.shape
    tail, mean, by_example = (1 - confidence) / 2, float(values.mean()), values.mean(axis=0)
    of_sets = stdtrit(sets - 1, tail) ** 2 * variance_of_sets(values) / sets if sets > 1 else 0.0
    if bounds is None:
        below, above = np.sqrt(np.square(_reaches(by_example, tail)) + of_sets)
        return mean - below, mean + above
    low, high = bounds
    share = min(max(round((mean - low) / (high - low), 12), 0.0), 1.0)
    variance = (by_example.var() / n + of_sets / ndtri(tail) ** 2) / (high - low) ** 2
    effective = min(n, share * (1 - share) / variance) if 0 < share < 1 and variance else n
    right, wrong = share * effective, (1 - share) * effective
    shares = (
        betaincinv(right, wrong + 1, tail) if right else 0.0,
        betaincinv(right + 1, wrong, 1 - tail) if wrong else 1.0,
    )
    return low + (high - low) * shares[0], low + (high - low) * shares[1]


def of_difference(
    values: Floats, random: Floats, confidence: float, bounds: Bounds = None
) -> tuple[float, float]:
    """Return the interval of the mean of a set of heads minus that of random sets.

    It covers sampling of examples, and how much one more random set differs from the mean of these
    (1 + 1 / draws). Since the latter variance is poorly estimated once that of the examples is subtracted,
    the interval is at least as wide as the one for another set on the same examples, exact for normal values.
    With bounds, two examples with the most extreme differences are added (Bonett and Price 2012), so that few
    examples without a difference are not taken as proof that there is none.

    Parameters
    ----------
    values, random : (n,) and (draws, n)
    """
    draws, n = random.shape
    apart, tail = values - random.mean(axis=0), (1 - confidence) / 2
    difference = float(apart.mean())
    if bounds is None:
        examples = apart.var(ddof=1) / n
    else:
        width = bounds[1] - bounds[0]
        examples = np.append(apart, [-width, width]).var() / (n + 2)
    of_examples = stdtrit(n - 1, tail) ** 2 * examples
    scale = stdtrit(draws - 1, tail) ** 2 * (1 + 1 / draws)
    observed = random.mean(axis=1).var(ddof=1)
    reach = np.sqrt(max(of_examples + scale * variance_of_sets(random), scale * observed))
    if bounds is None:
        return difference - reach, difference + reach
    return max(difference - reach, -width), min(difference + reach, width)


def _reaches(values: Floats, tail: float) -> Floats:
    """Return how far the mean of values (n,) may lie above and below the truth, each with probability `tail`.

    Hall's third transformation of t corrects for skewed values, such as losses, of which small samples
    often miss the few large values.
    """
    n, error = len(values), values.std(ddof=1) / np.sqrt(len(values))
    t = np.array([-1, 1]) * stdtrit(n - 1, tail)
    if error:
        skewness = np.mean((values - values.mean()) ** 3) / values.std() ** 3 / np.sqrt(n)
        if abs(skewness) > SYMMETRIC:
            t = 3 / skewness * (np.cbrt(1 + skewness * (t - skewness / 6)) - 1)
    reaches: Floats = np.abs(t) * error
    return reaches


def variance_of_sets(values: Floats) -> float:
    """Return the variance between sets (sets, n) minus the part due to sampling of examples, at least 0."""
    sets, n = values.shape
    apart = values - values.mean(axis=0)
    of_examples = apart.var(axis=1, ddof=1).sum() / (sets - 1) / n
    return max(float(values.mean(axis=1).var(ddof=1) - of_examples), 0.0)
