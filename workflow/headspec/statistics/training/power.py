"""Power of a comparison of two methods of training, from the components of variance of an earlier one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import nctdtr, stdtrit

from headspec.statistics.intervals import FEWEST, Components

Floats = NDArray[np.float64]

#: most seeds, and times as many examples, that are considered
MOST = 1000


def power(
    effect: float, parts: Components, seeds: ArrayLike, examples: ArrayLike = 1.0, level: float = 0.05
) -> Floats:
    """Chance that `headspec.statistics.intervals.p_over_seeds_and_examples` is at most `level`.

    The noncentral t distribution of the paired difference over its standard error, both over seeds and
    examples, with the degrees of freedom that Satterthwaite's formula gives the expected mean squares. Where
    examples have no part in the variance, this is the paired t-test over seeds. Simulated studies of 5 to 20
    seeds come within 0.03 of it; those of three may have 0.09 less.

    Parameters
    ----------
    effect : difference in truth
    parts : standard deviations of differences with the examples of the earlier study
    seeds : S, at least three
    examples : as a multiple of those of the earlier study
    level : of the two-sided test
    """
    n, examples = np.asarray(seeds, dtype=float), np.asarray(examples, dtype=float)
    of_seeds = (parts.seeds**2 + parts.both**2 / examples) / n
    variance = parts.seeds**2 / n + (parts.examples**2 + parts.both**2 / n) / examples
    freedom = np.maximum(variance**2 * (n - 1) / of_seeds**2, n - 1)
    reach = stdtrit(freedom, 1 - level / 2)
    shift = effect / np.sqrt(variance)
    # nctdtr is nan at some places of the far tail, where it is below 1e-20
    wrong_side = np.nan_to_num(nctdtr(freedom, shift, -reach))
    return 1 - nctdtr(freedom, shift, reach) + wrong_side


def seeds_needed(
    effect: float, parts: Components, wanted: float, examples: float = 1.0, level: float = 0.05
) -> int | None:
    """Fewest seeds with which `power` is `wanted`; None if `MOST` are too few.

    With the same examples for all seeds, their share of the variance stays, however many seeds there are.
    """
    seeds = np.arange(FEWEST, MOST + 1)
    enough = seeds[power(effect, parts, seeds, examples, level) >= wanted]
    return int(enough[0]) if len(enough) else None


def examples_needed(
    effect: float, parts: Components, wanted: float, seeds: int, level: float = 0.05
) -> float | None:
    """Least multiple of the examples, in steps of 5 %, with which `power` is `wanted` for `seeds` seeds."""
    multiples = 1.05 ** np.arange(-60, np.log(MOST) / np.log(1.05))
    enough = multiples[power(effect, parts, seeds, multiples, level) >= wanted]
    return float(enough[0]) if len(enough) else None
