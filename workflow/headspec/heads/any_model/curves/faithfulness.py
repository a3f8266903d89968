"""Faithfulness: the share of what all heads contribute to a metric that is left without a set of heads.

It is (value - all closed) / (unpruned - all closed): 1 for the unpruned model, 0 for one without heads, and
comparable between metrics, tasks and models.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from headspec.heads.any_model.curves.intervals import Bounds, variance_of_sets

Floats = NDArray[np.float64]
#: difference between unpruned and all closed, relative to the values, up to which there is none
ROUNDING = 1e-6


def faithfulness(
    values: Floats, unpruned: Floats, closed: Floats, confidence: float, bounds: Bounds = None
) -> tuple[float, float, float]:
    """Return faithfulness and its interval; nan if unpruned and all closed have the same mean.

    The interval is that of Fieller (1954) for a ratio of paired means: the shares s for which the mean of
    (value - all closed) - s (unpruned - all closed) does not differ from 0, by t(n - 1) over examples and
    t(sets - 1) over sets of heads. It is infinite if unpruned and all closed do not differ more than
    examples do. As in `of_difference`, two examples with the most extreme differences are added to the
    variance; without bounds, they are as far apart as the largest and smallest value. This errs on the wide
    side, since few examples lack the rare large losses of others.

    Parameters
    ----------
    values : (sets, n), of random sets of heads, or of a single set
    unpruned, closed : (n,), of the model with all heads, and with none
    """
    sets, n = values.shape
    kept, whole = values.mean(axis=0) - closed, unpruned - closed
    above, below = float(kept.mean()), float(whole.mean())
    if abs(below) <= ROUNDING * max(np.abs(unpruned).mean(), np.abs(closed).mean()):
        return np.nan, np.nan, np.nan
    tail = (1 - confidence) / 2
    width = bounds[1] - bounds[0] if bounds else np.ptp(np.vstack([values, unpruned, closed]))
    with_extremes = np.hstack([[kept, whole], [[-width, width], [0, 0]]])
    covariance = stdtrit(n - 1, tail) ** 2 * np.cov(with_extremes, ddof=0) / (n + 2)
    of_sets = stdtrit(sets - 1, tail) ** 2 * variance_of_sets(values) / sets if sets > 1 else 0.0
    square, middle = below**2 - covariance[1, 1], above * below - covariance[0, 1]
    root = middle**2 - square * (above**2 - covariance[0, 0] - of_sets)
    if square <= 0 or root < 0:
        return above / below, -np.inf, np.inf
    reach = np.sqrt(root)
    return above / below, (middle - reach) / square, (middle + reach) / square
