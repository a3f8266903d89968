"""Intervals over seeds: closed forms, and simulated coverage with few seeds."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec.statistics.intervals import (
    Orders,
    clear,
    components,
    decisive,
    of_seeds,
    over_seeds_and_draws,
    over_seeds_and_examples,
    p_over_seeds_and_examples,
)
from headspec.statistics.resampling import p_value


def simulated(first, **values):
    """Cases of a simulation, of which all but the first are slow."""
    cases = [
        pytest.param(*case, marks=() if case == first else pytest.mark.thorough)
        for case in itertools.product(*values.values())
    ]
    return pytest.mark.parametrize(list(values), cases)


def bootstrapped(y, resamples, rng):
    """Means (resamples, S, studies) of the n rows of y (studies, S, n), the same ones for all seeds."""
    studies, _, n = y.shape
    rows = rng.integers(n, size=(studies * resamples, n)) + n * np.arange(studies * resamples)[:, None]
    counts = np.bincount(rows.ravel(), minlength=rows.size).reshape(studies, resamples, n)
    return (counts / n @ y.swapaxes(1, 2)).transpose(1, 2, 0)


@simulated((3, 0.4), seeds=[3, 5, 10], share=[0, 0.4, 0.8])
def test_coverage_over_seeds_and_examples(seeds, share):
    """`share`: of seeds in the variance of a run; errors over examples correlate by 0.6 between seeds."""
    rng = np.random.default_rng([seeds, int(10 * share)])
    n, studies = 60, 1000
    common, interaction = (((1 - share) * part * n) ** 0.5 for part in (0.6, 0.4))
    y = share**0.5 * rng.normal(size=(studies, seeds, 1)) + common * rng.normal(size=(studies, 1, n))
    y = y + interaction * rng.normal(size=(studies, seeds, n))
    interval = over_seeds_and_examples(y.mean(axis=2).T, bootstrapped(y, 120, rng), 0.95)
    covered = (interval.low <= 0) & (interval.high >= 0)
    assert covered.shape == (studies,)
    assert 0.92 < covered.mean() < 0.98  # 0.93 to 0.97, and two standard errors of the simulation


@simulated((3, 5), seeds=[3, 5, 10], spread=[0, 0.5, 2, 5, 12])
def test_p_over_seeds_and_examples_errs_as_often_as_it_says(seeds, spread):
    """In families of one, ten and 144 tests. `spread`: standard deviation of seeds, over examples it is 1.

    Few seeds are alike by chance: the p of the interval is below 0.001 nine times too often with three.
    """
    rng = np.random.default_rng([seeds, int(10 * spread)])
    levels = 0.05 / np.array([1, 10, 144])
    found, studies = np.zeros(3), 40_000
    for _ in range(10):
        part = studies // 10
        values = rng.normal(0, spread, (seeds, part)) + rng.normal(size=part)
        values += rng.normal(0, 0.5, (seeds, part))
        bootstrap = values + rng.normal(size=(150, 1, part)) + rng.normal(0, 0.5, (150, seeds, part))
        p = p_over_seeds_and_examples(values, bootstrap)
        found += (p <= levels[:, None]).sum(axis=1)
    most = levels * (1.2 if seeds < 10 else 1.4)  # some p_holm is below 0.05 in 6 or 7 % of families
    assert (found / studies <= most + 3 * np.sqrt(most / studies)).all(), found / studies / levels


def test_seeds_that_are_exactly_alike_leave_p_to_the_examples():
    rng = np.random.default_rng(0)
    for value, low, high in ((0.3, 0, 1e-9), (0.03, 0.08, 0.4), (0, 1, 1)):
        sampled = np.repeat(value + 0.02 * rng.normal(size=(2000, 1)), 4, axis=1)
        assert low <= p_over_seeds_and_examples(np.full(4, value), sampled) <= high


@simulated((3, 0.4, 0.5), seeds=[3, 5, 10], share=[0, 0.4, 0.8], draws=[0.1, 0.5, 0.9])
def test_coverage_over_seeds_and_draws(seeds, share, draws):
    """`share`: of seeds in the variance of a fit; `draws`: of draws in the rest."""
    rng = np.random.default_rng([seeds, int(10 * share), int(10 * draws)])
    repeats, covered = 1500, 0
    common, interaction = (((1 - share) * part) ** 0.5 for part in (draws, 1 - draws))
    for _ in range(repeats):
        grid = share**0.5 * rng.normal(size=(seeds, 1)) + common * rng.normal(size=(1, 5))
        interval = over_seeds_and_draws(grid + interaction * rng.normal(size=(seeds, 5)), 0.95)
        covered += interval.low <= 0 <= interval.high
    assert 0.92 < covered / repeats < 0.98  # 0.93 to 0.97, and two standard errors of the simulation


def test_seeds_alone_give_students_t_and_undefined_values_no_interval():
    """Without variance over examples or draws, it is the interval of a mean of normal values."""
    values = np.array([[0.01, np.nan], [0.02, 0.1], [0.04, 0.2]])
    interval = over_seeds_and_examples(values, np.tile(values, (50, 1, 1)), 0.95)
    expected = stats.t.interval(0.95, 2, values[:, 0].mean(), stats.sem(values[:, 0]))
    np.testing.assert_allclose(interval[:2], np.transpose([expected, [np.nan, np.nan]]))
    assert interval.over == "seeds and examples"
    assert over_seeds_and_draws(np.repeat(values[:, :1], 4, axis=1), 0.95)[:2] == pytest.approx(expected)


def test_examples_alone_give_the_normal_interval_of_the_bootstrap():
    """Identical seeds add nothing to the variance over examples."""
    sampled = np.random.default_rng(0).normal(0.3, 0.02, size=(4000, 1))
    interval = over_seeds_and_examples(np.full(4, 0.3), np.repeat(sampled, 4, axis=1), 0.95)
    assert (interval.low, interval.high) == pytest.approx((0.3 - 1.96 * 0.02, 0.3 + 1.96 * 0.02), abs=1e-3)


@pytest.mark.parametrize("seeds", [1, 2])
def test_intervals_of_few_seeds_are_over_examples_or_draws(seeds):
    """The percentiles of their mean, and Student's t interval over draws."""
    rng = np.random.default_rng(1)
    sampled, grid = rng.normal(size=(999, seeds, 3)), rng.normal(size=(seeds, 5))
    interval = over_seeds_and_examples(np.zeros((seeds, 3)), sampled, 0.9)
    np.testing.assert_allclose(interval[:2], np.quantile(sampled.mean(axis=1), [0.05, 0.95], axis=0))
    draws, means = over_seeds_and_draws(grid, 0.95), grid.mean(axis=0)
    assert draws[:2] == pytest.approx(stats.t.interval(0.95, 4, means.mean(), stats.sem(means)))
    assert (interval.over, draws.over) == ("examples", "draws")


def test_components_of_the_variance_add_up_to_the_interval():
    """Which is t times the root of their sum, with a whole number of degrees of freedom."""
    rng = np.random.default_rng(0)
    values = 0.01 + 0.05 * rng.normal(size=5)
    bootstrap = values + 0.01 * rng.normal(size=(400, 1)) + 0.01 * rng.normal(size=(400, 5))
    parts = components(values, bootstrap)
    assert min(parts) > 0.005
    error = np.sqrt((parts.seeds**2 + parts.both**2) / 5 + parts.examples**2)
    low, high, _ = over_seeds_and_examples(values, bootstrap, 0.95)
    freedom = np.arange(4, 200)
    assert np.isclose(stats.t.ppf(0.975, freedom) * error, (high - low) / 2, rtol=1e-9).any()
    p = p_over_seeds_and_examples(values, bootstrap)
    assert np.isclose(2 * stats.t.sf(values.mean() / error, freedom), p).any()


@pytest.mark.parametrize(("seeds", "draws"), [(3, 2), (3, 5), (6, 4)])
def test_an_interval_over_seeds_and_draws_is_of_the_mean_squares_of_the_grid(seeds, draws):
    rng = np.random.default_rng(seeds)
    effects = rng.normal(size=(seeds, 1)) + rng.normal(size=draws)
    grid = effects + 0.3 * rng.normal(size=(seeds, draws))
    rows, columns = grid.mean(axis=1), grid.mean(axis=0)
    error = sum(
        (grid[i, j] - rows[i] - columns[j] + grid.mean()) ** 2 for i in range(seeds) for j in range(draws)
    ) / ((seeds - 1) * (draws - 1))  # mean square of the interaction
    parts = draws * rows.var(ddof=1), seeds * columns.var(ddof=1)
    variance = (parts[0] + parts[1] - error) / (seeds * draws)
    assert parts[0] > error
    squares = parts[0] * (parts[0] - error) / (seeds - 1) + parts[1] ** 2 / (draws - 1)
    freedom = (variance * seeds * draws) ** 2 / squares
    freedom = max(np.floor(freedom), min(seeds, draws) - 1)
    expected = stats.t.interval(0.9, freedom, grid.mean(), np.sqrt(variance))
    assert over_seeds_and_draws(grid, 0.9)[:2] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["p", "gain_p"])
def test_from_three_seeds_on_the_p_for_other_seeds_decides_alone(name):
    """Where it is null, nothing is clear, whatever the p of these runs."""
    nan = np.nan
    table = pd.DataFrame(
        {"n_seeds": [2, 3, 3, 5, 5], f"{name}_holm": [0.01, 0.02, 0.03, 0.2, 0.2],
         f"{name}_seeds_holm": [nan, nan, 0.3, 0.04, 0.03], "ci_low": -1.0, "ci_high": 1.0,
         "unpruned_at_chance": [False, False, False, False, True]},
        index=[*"abcde"],
    )  # fmt: skip
    assert of_seeds(table).to_dict() == dict(a=False, b=True, c=True, d=True, e=True)
    assert decisive(table, name).fillna(-1).to_dict() == dict(a=0.01, b=-1, c=0.3, d=0.04, e=0.03)
    if name == "p":
        assert clear(table).to_dict() == dict(a=False, b=False, c=False, d=True, e=False)


def test_without_errors_over_examples_orders_are_a_t_test():
    """Of one seed the ordinary one; of several with the variance within them."""
    values = np.random.default_rng(0).normal(1, 1, size=(2, 6, 3))
    same = np.broadcast_to(values.mean(axis=1), (1999, 2, 3))
    for seeds in (1, 2):
        chosen, n = values[:seeds], 6 * seeds
        orders, mean = Orders.estimate(chosen), chosen.mean(axis=(0, 1))
        error = np.sqrt(chosen.var(axis=1, ddof=1).mean(axis=0) / n)
        found = over_seeds_and_examples(chosen.mean(axis=1), same[:, :seeds], 0.9, orders)
        np.testing.assert_allclose(found.high, mean + stats.t.ppf(0.95, n - seeds) * error)
        np.testing.assert_allclose(found.low, 2 * mean - found.high)
        expected = 2 * stats.t.sf(np.abs(mean) / error, n - seeds)
        if seeds == 1:
            np.testing.assert_allclose(expected, stats.ttest_1samp(values[0], 0).pvalue)
        np.testing.assert_allclose(p_value(mean, orders.null(same[:, :seeds])), expected, atol=1 / 2000)
