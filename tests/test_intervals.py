"""One interval over seeds: closed forms, and simulated coverage at few seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headspec.intervals import over_seeds_and_draws, over_seeds_and_examples


def bootstrapped(y, resamples, rng):
    """Means (resamples, S) of the rows of y (S, n) over the same resampled examples."""
    n = y.shape[1]
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n @ y.T


@pytest.mark.parametrize("share", [0, 0.4, 0.8])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_coverage_over_seeds_and_examples(seeds, share):
    """Between-seed share of a run's variance; errors over examples correlate by 0.6 between seeds."""
    rng = np.random.default_rng([seeds, int(10 * share)])
    n, repeats, covered = 60, 1000, 0
    common, own = (((1 - share) * part * n) ** 0.5 for part in (0.6, 0.4))
    for _ in range(repeats):
        y = share**0.5 * rng.normal(size=(seeds, 1)) + common * rng.normal(size=n)
        y = y + own * rng.normal(size=(seeds, n))
        found = over_seeds_and_examples(y.mean(axis=1), bootstrapped(y, 120, rng), 0.95)
        covered += found.low <= 0 <= found.high
    assert 0.92 < covered / repeats < 0.98  # 0.93 to 0.97, and two standard errors of the simulation


@pytest.mark.parametrize("of_draws", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("share", [0, 0.4, 0.8])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_coverage_over_seeds_and_draws(seeds, share, of_draws):
    """Between-seed share of the variance of a fit, and the draws' part of what is left."""
    rng = np.random.default_rng([seeds, int(10 * share), int(10 * of_draws)])
    repeats, covered = 1500, 0
    common, own = (((1 - share) * part) ** 0.5 for part in (of_draws, 1 - of_draws))
    for _ in range(repeats):
        grid = share**0.5 * rng.normal(size=(seeds, 1)) + common * rng.normal(size=(1, 5))
        found = over_seeds_and_draws(grid + own * rng.normal(size=(seeds, 5)), 0.95)
        covered += found.low <= 0 <= found.high
    assert 0.92 < covered / repeats < 0.98  # 0.93 to 0.97, and two standard errors of the simulation


def test_seeds_alone_give_students_t():
    """Examples on which nothing varies leave the interval of a mean of normal values."""
    values = np.array([0.01, 0.02, 0.04])
    found = over_seeds_and_examples(values, np.tile(values, (50, 1)), 0.95)
    expected = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected) and found.over == "seeds and examples"
    grid = np.repeat(values[:, None], 4, axis=1)
    assert over_seeds_and_draws(grid, 0.95)[:2] == pytest.approx(expected)


def test_examples_alone_give_the_normal_interval_of_the_bootstrap():
    """Seeds that are all alike add nothing to the variance over examples."""
    sampled = np.random.default_rng(0).normal(0.3, 0.02, size=(4000, 1))
    found = over_seeds_and_examples(np.full(4, 0.3), np.repeat(sampled, 4, axis=1), 0.95)
    assert (found.low, found.high) == pytest.approx((0.3 - 1.96 * 0.02, 0.3 + 1.96 * 0.02), abs=1e-3)


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_have_the_percentiles_of_their_mean(seeds):
    sampled = np.random.default_rng(1).normal(size=(999, seeds, 3))
    found = over_seeds_and_examples(np.zeros((seeds, 3)), sampled, 0.9)
    np.testing.assert_allclose(found.low, np.quantile(sampled.mean(axis=1), 0.05, axis=0))
    np.testing.assert_allclose(found.high, np.quantile(sampled.mean(axis=1), 0.95, axis=0))
    assert found.over == "examples"


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_and_draws_have_students_t_over_draws(seeds):
    grid = np.random.default_rng(2).normal(size=(seeds, 5))
    found = over_seeds_and_draws(grid, 0.95)
    means = grid.mean(axis=0)
    assert found[:2] == pytest.approx(stats.t.interval(0.95, 4, means.mean(), stats.sem(means)))
    assert found.over == "draws"


def test_what_does_not_vary_has_an_interval_of_no_width():
    assert over_seeds_and_examples(np.zeros(3), np.zeros((50, 3)), 0.95)[:2] == (0, 0)
    assert over_seeds_and_draws(np.full((3, 5), 0.2), 0.95)[:2] == pytest.approx((0.2, 0.2))


def test_what_is_not_defined_has_no_interval():
    values = np.array([[0.1, np.nan], [0.2, 0.1], [0.3, 0.2]])
    found = over_seeds_and_examples(values, np.tile(values, (20, 1, 1)), 0.95)
    assert np.isfinite([found.low[0], found.high[0]]).all()
    assert np.isnan([found.low[1], found.high[1]]).all()
