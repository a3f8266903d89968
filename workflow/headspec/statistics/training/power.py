"""Power to tell two methods of training apart, from the variance components of an earlier comparison."""

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from headspec.statistics.intervals import FEWEST, Components, p_of_moments

Floats = NDArray[np.float64]

#: most seeds, and times as many examples, that are considered
MOST = 1000
#: simulated studies
STUDIES = 2048


def power(effect: float, parts: Components, seeds: int, examples: float = 1.0, level: float = 0.05) -> float:
    """Return the chance that `headspec.statistics.intervals.p_over_seeds_and_examples` is at most `level`.

    The test runs in `STUDIES` simulated studies of normal differences with the true difference `effect`.
    Studies with more seeds, examples or a larger effect take the same points of a golden-ratio lattice, which
    lie more evenly than random ones: the error of simulation is below 0.005. `parts` are standard deviations
    with the examples of the earlier study, of which `examples` is a multiple; `seeds` are at least three.
    """
    number = np.arange(STUDIES)
    quantile, other = (number + 0.5) / STUDIES, (number * (np.sqrt(5) - 1) / 2 + 0.5) % 1
    interaction = np.square(parts.both) / examples
    shared = np.square(parts.examples) / examples + interaction / seeds
    between = parts.seeds**2 + interaction  # variance of the estimates of seeds
    mean = effect + np.sqrt(parts.seeds**2 / seeds + shared) * ndtri(quantile)
    variance = between * gammaincinv((seeds - 1) / 2, other) * 2 / (seeds - 1)
    return float(np.mean(p_of_moments(seeds, mean, variance, shared, interaction) <= level))


def seeds_needed(
    effect: float, parts: Components, wanted: float, examples: float = 1.0, level: float = 0.05
) -> int | None:
    """Fewest seeds with which `power` is `wanted` for the given examples; None if `MOST` are too few."""
    seeds = range(FEWEST, MOST + 1)
    place = bisect_left(seeds, wanted, key=lambda number: power(effect, parts, number, examples, level))
    return seeds[place] if place < len(seeds) else None


def examples_needed(
    effect: float, parts: Components, wanted: float, seeds: int, level: float = 0.05
) -> float | None:
    """Least multiple of the examples, in steps of 5 %, with which `power` is `wanted` for `seeds` seeds."""
    multiples = [float(multiple) for multiple in 1.05 ** np.arange(-60, np.log(MOST) / np.log(1.05))]
    place = bisect_left(multiples, wanted, key=lambda multiple: power(effect, parts, seeds, multiple, level))
    return multiples[place] if place < len(multiples) else None
