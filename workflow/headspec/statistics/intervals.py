"""Intervals of a mean over seeds, for dissociation, IAT and transfer, and which differences are clear.

All seeds are evaluated on the same examples, or learn from the same few-shot draws: a mean varies with seeds,
with examples or draws, and with their interaction. Random orders of heads are nested in seeds. Whether a
difference is clear depends on the p for other seeds, if there are enough, else on the p of these runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from headspec.statistics.resampling import SIGNIFICANCE, holm, interval, p_value
from headspec.tables import FLOAT

Floats = NDArray[np.float64]

#: minimum number of seeds to estimate their variance; with two, t would be 13 standard errors
FEWEST = 3


class Interval(NamedTuple):
    """Bounds, and the sources of variation that they cover."""

    low: Floats
    high: Floats
    over: str


class Orders(NamedTuple):
    """Variance (...) that random orders add to a mean over seeds, and its degrees of freedom.

    `more` is the variance of one more order, the same for all seeds, if the mean is compared with it: an
    uninformative ranking is one more order, not the mean of all.
    """

    variance: Floats
    df: int
    more: ArrayLike = 0.0

    @classmethod
    def estimate(cls, values: Floats) -> Orders:
        """Estimate from values (S, D, ...) of S seeds with D orders each."""
        seeds, orders = values.shape[:2]
        variance = values.var(axis=1, ddof=1).mean(axis=0) / (seeds * orders)
        return cls(variance, seeds * (orders - 1))

    def with_one_more(self, n: int) -> Orders:
        """Return these orders with the variance `more` of one more order, if the mean is over n orders."""
        return self._replace(more=n * self.variance)

    def reach(self, bootstrap: Floats, level: ArrayLike) -> Floats:
        """Return the distance of the mean from the truth that is exceeded with probability at most `level`.

        The variance over examples times the squared normal quantile, plus the variance over orders times the
        squared quantile of t, keeps its level with any number of orders (Banerjee 1960). Satterthwaite's
        degrees of freedom do not, with few orders and small levels. `bootstrap` (resamples, S, ...) has
        estimates on resampled examples with the same orders.
        """
        tail = np.asarray(level) / 2
        examples = bootstrap.mean(axis=1).var(axis=0)
        orders: Floats = np.add(self.variance, self.more)
        distance: Floats = np.sqrt(ndtri(tail) ** 2 * examples + stdtrit(self.df, tail) ** 2 * orders)
        return distance

    def null(self, bootstrap: Floats) -> Floats:
        """Return quantiles of the distance (resamples, ...) of a mean whose truth is 0, for `p_value`."""
        n = len(bootstrap)
        levels = np.arange(1, n + 1) / (n + 1)
        return self.reach(bootstrap, levels.reshape(-1, *[1] * (bootstrap.ndim - 2)))


def over_seeds_and_examples(
    values: Floats, bootstrap: Floats, confidence: float, orders: Orders | None = None
) -> Interval:
    """Return the interval of a mean over S seeds that are evaluated on the same examples.

    With three or more seeds, it covers seeds and examples: t times the standard error of a two-way random
    model (see `_t_interval`). With one or two, it is the percentile interval over examples for these seeds
    alone. If the estimates are means over random orders, it also covers `orders`, with one or two seeds by
    `Orders.reach`.

    Simulated coverage of 95 % intervals is 93 to 97 % for 3, 5 and 10 seeds, seeds with 0 to 0.8 of the
    variance of a run, and errors over examples correlated by 0.3 to 0.9 between seeds. It is higher without
    correlation.

    Parameters
    ----------
    values : (S, ...), estimate of each seed
    bootstrap : (resamples, S, ...), estimates on resampled examples, the same ones for all seeds

    Returns
    -------
    Interval
        low, high: (...); over: 'examples', 'seeds and examples', 'examples and orders', or 'seeds, examples
        and orders'
    """
    n = len(values)
    mean = bootstrap.mean(axis=1)
    if n < FEWEST and orders:
        center, reach = values.mean(axis=0), orders.reach(bootstrap, 1 - confidence)
        return Interval(center - reach, center + reach, "examples and orders")
    if n < FEWEST:
        return Interval(*interval(mean, confidence), "examples")
    bounds = _t_interval(values, *_components(bootstrap, orders), np.inf, confidence)
    return Interval(*bounds, "seeds, examples and orders" if orders else "seeds and examples")


def p_over_seeds_and_examples(values: Floats, bootstrap: Floats, orders: Orders | None = None) -> Floats:
    """Return the two-sided p (...), covering seeds and examples, of a mean over seeds whose true value is 0.

    It is nan with one or two seeds. If the estimates are means over random orders, it also covers `orders`.

    It is the largest of three, each too small where another is not: the level at which the interval of
    `over_seeds_and_examples` just excludes 0, too small if a few seeds happen to be alike; the normal p,
    averaged over possible variances between seeds, whose root has a half-Cauchy prior scaled by the standard
    error over examples (Gelman 2006), too small if seeds vary much more; and Student's t of the seeds alone,
    too small if they vary less.

    In simulated families of 1 to 144 tests without any effect, the smallest p_holm is below 0.05 in at most
    6 % of studies with three or five seeds and 7 % with ten, whatever the ratio of the variation over seeds
    to that over examples. In families of ten, a difference of five standard errors is found in 99, 39, 20 and
    16 % of studies with three seeds at ratios 0, 1, 2 and 3, and in 99, 97, 82 and 68 % with five.
    """
    n, mean = len(values), values.mean(axis=0)
    if n < FEWEST:
        return np.full_like(mean, np.nan)
    return p_of_moments(n, mean, values.var(axis=0, ddof=1), *_components(bootstrap, orders))


def p_of_moments(n: int, mean: Floats, variance: Floats, shared: Floats, interaction: Floats) -> Floats:
    """Return `p_over_seeds_and_examples` from the mean and variance (...) of the estimates of n seeds.

    `shared` and `interaction` are as in `_variance`.
    """
    squared_error, freedom = _variance(n, variance, shared, interaction, np.inf)
    distance, error = np.abs(mean), np.sqrt(squared_error)
    p = 2 * stdtr(freedom, -np.divide(distance, error, out=np.zeros_like(error), where=error > 0))
    ratio = np.geomspace(0.01, 1000, 60).reshape(-1, *[1] * distance.ndim)  # of the standard deviations
    between_seeds = np.square(ratio) * shared
    between_estimates = between_seeds + interaction
    squares = (n - 1) * variance
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.fmax(p, 2 * stdtr(n - 1, -distance / np.sqrt(variance / n)))  # of seeds alone
        likelihood = -(n - 1) / 2 * np.log(between_estimates) - squares / (2 * between_estimates)
        weights = np.exp(likelihood - likelihood.max(axis=0)) * ratio / (1 + np.square(ratio))
        averaged = np.average(
            2 * ndtr(-distance / np.sqrt(shared + between_seeds / n)), axis=0, weights=weights
        )
    larger: Floats = np.where(shared > 0, np.maximum(p, averaged), p)
    return larger


class Components(NamedTuple):
    """Standard deviations of the two-way random model."""

    seeds: Floats  # between seeds, with infinitely many examples
    examples: Floats  # over sets of as many examples, shared by all seeds
    both: Floats  # over these sets, of the part specific to a seed


def components(values: Floats, bootstrap: Floats) -> Components:
    """Return the `Components`, (...) each, of values (S, ...) of three or more seeds.

    `bootstrap` is as in `over_seeds_and_examples`.
    """
    shared, interaction = _components(bootstrap)
    between_seeds = np.maximum(values.var(axis=0, ddof=1) - interaction, 0)
    over_examples = np.maximum(shared - interaction / len(values), 0)
    return Components(*map(np.sqrt, (between_seeds, over_examples, interaction)))


def _components(bootstrap: Floats, orders: Orders | None = None) -> tuple[Floats, Floats]:
    """Estimate `shared` and `interaction` of `_variance`; `bootstrap` is (resamples, S, ...)."""
    n, mean = bootstrap.shape[1], bootstrap.mean(axis=1)
    interaction = (bootstrap - mean[:, None]).var(axis=0).sum(axis=0) / (n - 1)
    shared = mean.var(axis=0)
    if orders is None:
        return shared, interaction
    return shared + orders.variance + orders.more, interaction + n * orders.variance


def over_seeds_and_draws(grid: Floats, confidence: float) -> Interval:
    """Return the interval of the mean of `grid` (S, D), of S seeds that learn from the same D draws.

    Like `over_seeds_and_examples`, with variance components from the mean squares of the grid. With one or
    two seeds, it is Student's t interval over draws. Simulated coverage of 95 % intervals is 93 to 97 % for
    3, 5 and 10 seeds and five draws, whatever the shares of seeds, draws and their interaction. With ten
    draws and three seeds it can be 92 %, with three draws 98 %; two draws are too few for a guarantee, and
    with one draw bounds are nan.
    """
    n, draws = grid.shape
    over_draws = grid.mean(axis=0).var(ddof=1) / draws
    if n < FEWEST:
        reach = stdtrit(draws - 1, (1 + confidence) / 2) * np.sqrt(over_draws)
        return Interval(grid.mean() - reach, grid.mean() + reach, "draws")
    rest = grid - grid.mean(axis=1, keepdims=True) - grid.mean(axis=0) + grid.mean()
    interaction = (rest**2).sum() / ((n - 1) * (draws - 1)) / draws
    bounds = _t_interval(grid.mean(axis=1), over_draws, interaction, draws - 1, confidence)
    return Interval(*bounds, "seeds and draws")


def _t_interval(
    values: Floats, shared: ArrayLike, interaction: ArrayLike, df: float, confidence: float
) -> tuple[Floats, Floats]:
    """Return the t interval of the mean of `values` (S, ...); for other parameters see `_variance`."""
    variance, freedom = _variance(len(values), values.var(axis=0, ddof=1), shared, interaction, df)
    reach = stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variance)
    return values.mean(axis=0) - reach, values.mean(axis=0) + reach


def _variance(
    n: int, between: Floats, shared: ArrayLike, interaction: ArrayLike, df: float
) -> tuple[Floats, Floats]:
    """Return the variance (...) of a mean over n seeds in a two-way random model, and its degrees of freedom.

    It is `shared` plus 1 / n times the excess of `between` over the `interaction`, which `shared` already
    includes (Searle, Casella and McCulloch 1992, ch. 4). Degrees of freedom are Satterthwaite's (1946),
    rounded down, and at least the smaller of n - 1 and `df`. If `df` is finite, the squared variance of seeds
    in his formula is replaced by the product of this variance and the remainder after the subtraction: the
    squared variance makes intervals over few draws too wide, the squared remainder too narrow.

    Parameters
    ----------
    between : variance of the estimates of seeds, (...)
    shared : variance of the mean given these seeds, with `df` degrees of freedom (infinite for examples)
    interaction : variance of a seed's estimate over examples or draws that other seeds do not share
    """
    mean_part, shared = between / n, np.asarray(shared, dtype=float)
    remainder: Floats = np.maximum(mean_part - np.asarray(interaction, dtype=float) / n, 0)
    variance = shared + remainder
    denominator = mean_part * (mean_part if np.isinf(df) else remainder) / (n - 1) + np.square(shared) / df
    freedom = np.full_like(variance, np.inf)
    np.divide(variance**2, denominator, out=freedom, where=denominator > 0)
    freedom = np.maximum(np.floor(freedom), min(n - 1, df))
    return variance, freedom


#: columns of a test: p of these runs alone and for other seeds (null with one or two), each also corrected
TESTED = dict.fromkeys(("p_value", "p_holm", "p_seeds", "p_seeds_holm"), FLOAT)


def tested(
    values: Floats, bootstrap: Floats, confidence: float, null: Floats | None = None
) -> dict[str, object]:
    """Return columns for the mean of S differences: value, interval, and p of these runs and for other seeds.

    Parameters
    ----------
    values : (S,), the difference in each seed
    bootstrap : (resamples, S), on resampled examples, the same ones for all seeds
    null : (permutations,), means over seeds under the null hypothesis on these runs; without it there is no
        p_value
    """
    low, high, over = over_seeds_and_examples(values, bootstrap, confidence)
    row = {"difference": float(values.mean()), "ci_low": float(low), "ci_high": float(high), "ci_over": over}
    here = {} if null is None else {"p_value": float(p_value(values.mean(), null))}
    return row | here | {"p_seeds": float(p_over_seeds_and_examples(values, bootstrap))}


def corrected(table: pd.DataFrame, family: pd.Series | list[pd.Series]) -> pd.DataFrame:
    """Return `table` with p_holm and p_seeds_holm: p_value and p_seeds, if present, corrected by `family`."""
    groups, columns = table.groupby(family), {"p_value": "p_holm", "p_seeds": "p_seeds_holm"}
    return table.assign(**{columns[p]: groups[p].transform(holm) for p in columns if p in table})


def of_seeds(table: pd.DataFrame) -> pd.Series:
    """Return whether the decisive p of each row is that for other seeds: there are three or more."""
    return table["n_seeds"] >= FEWEST


def decisive(table: pd.DataFrame, name: str = "p") -> pd.Series:
    """Return the corrected p of each row: for other seeds or, with one or two seeds, of these runs alone."""
    return table[f"{name}_seeds_holm"].where(of_seeds(table), table[f"{name}_holm"])


def clear(table: pd.DataFrame) -> pd.Series:
    """Return whether each difference is clear for other seeds (never with one or two) and a side learnt."""
    return of_seeds(table) & (table["p_seeds_holm"] < SIGNIFICANCE) & ~table["unpruned_at_chance"].eq(True)
