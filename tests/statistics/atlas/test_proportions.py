"""Tests of proportions in clustered cases, against closed forms, scipy and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from headspec.statistics.atlas.proportions import effective_cases, exact_interval, exceeding, exceeding_pairs


@given(st.integers(1, 60), st.data(), st.floats(0.01, 0.99))
def test_whole_numbers_are_the_exact_binomial_test(n, data, threshold):
    hits = data.draw(st.integers(0, n))
    p = exceeding(hits / n, n, threshold)
    assert p == pytest.approx(binom.sf(hits - 1, n, threshold), rel=1e-6, abs=1e-12)
    expected = binomtest(hits, n).proportion_ci(0.95, method="exact")
    assert exact_interval(hits / n, n, 0.95) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_effective_numbers_need_not_be_whole_and_thresholds_not_between_0_and_1():
    assert exceeding(0.05, 10, 0.01) == pytest.approx(beta.cdf(0.01, 0.5, 10.5))
    low, high = exact_interval([0, 0.05, 0.95, 1], 10, 0.9)
    np.testing.assert_allclose(low, [0, *beta.ppf(0.05, [0.5, 9.5, 10], [10.5, 1.5, 1])])
    np.testing.assert_allclose(high, [*beta.ppf(0.95, [1, 1.5, 10.5], [10, 9.5, 0.5]), 1])
    for threshold, p in {1.1: [1, 1, 1], -0.1: [1, 0, 0], 0: [1, 0, 0]}.items():
        assert exceeding([0, 0.5, 1], 10, threshold).tolist() == p


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_pairs_without_a_margin_are_mcnemars_exact_test(more, less, same):
    """The differing cases are a fair coin."""
    if not (n := more + less + same):
        return
    p = exceeding_pairs((more - less) / n, (more + less) / n, n, 0)
    expected = binomtest(more, more + less, alternative="greater").pvalue if more + less else 1
    assert p == pytest.approx(expected, rel=1e-6)


def test_a_margin_that_the_differing_cases_cannot_reach():
    assert exceeding_pairs(0.05, 0.05, 1000, 0.1) == 1
    assert exceeding_pairs(1, 1, 100, 0.1) == pytest.approx(0.55**100)


def test_independent_cases_count_fully_and_clusters_of_equal_cases_once():
    alone = (np.random.default_rng(0).random((2000, 3)) < [0.1, 0.5, 0.9]).astype(float)
    for size in (1, 7):
        mean, effective = effective_cases(size * alone, np.full(2000, size))
        np.testing.assert_allclose(mean, alone.mean(axis=0))
        np.testing.assert_allclose(effective, 2000, rtol=1e-3)
    mean, effective = effective_cases(np.array([[3.0, 0], [4, 0]]), [3, 4])  # all hits, and none
    assert mean.tolist() == [1, 0] and effective.tolist() == [2, 2]
    balanced = np.array([[1.0], [1], [1], [2]])  # clusters more alike than chance
    assert effective_cases(balanced, [2, 2, 2, 3])[1] == 9


def test_effective_cases_in_closed_form():
    """Variance of the mean: K / (K - 1) times the sum of squared residuals over the squared cases."""
    assert effective_cases([1, 0], [1, 1]) == (0.5, 1)  # 2 (1/4 + 1/4) / 4, as one case has
    million = 10**6
    sums = million / 2 + np.array([500, -500, 500, -500])  # 4 / 3 10^6 / (16 10^12); a case has 1/4
    assert effective_cases(sums, [million] * 4) == (0.5, pytest.approx(3 * million))


def clustered(rate: float, sentences: int, heads: int, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hits (cases, heads) of that rate, half of them decided for a whole sentence; first and number of cases.

    Both are (sentences,).
    """
    number = rng.integers(1, 6, sentences)
    sentence = np.repeat(np.arange(sentences), number)
    own, common = rng.random((len(sentence), heads)), rng.random((sentences, heads))[sentence]
    hits = np.where(rng.random(own.shape) < 0.3, common, own) < rate
    return hits, np.cumsum(number) - number, number


@pytest.mark.thorough
def test_rates_at_the_threshold_are_found_to_exceed_it_at_the_nominal_rate():
    """With dependent cases, at 5 and at 0.5 %; a test that ignored the dependence would find more."""
    rng = np.random.default_rng(1)
    for rate in (0.5, 0.9):
        hits, starts, cases = clustered(rate, 120, 20_000, rng)
        mean, effective = effective_cases(np.add.reduceat(hits, starts, dtype=float), cases)
        assert effective.mean() < 0.9 * len(hits)
        p = exceeding(mean, effective, rate)
        assert 0.02 < (p < 0.05).mean() < 0.065 and (p < 0.005).mean() < 0.0085
        low, high = exact_interval(mean, effective, 0.95)
        assert 0.93 < ((low < rate) & (rate < high)).mean() < 0.98


def test_differences_at_the_margin_are_found_to_exceed_it_at_the_nominal_rate():
    rng = np.random.default_rng(2)
    hits, starts, cases = clustered(0.5, 120, 20_000, rng)
    score = hits.astype(float) - (rng.random(hits.shape) < 0.4)
    differing = np.abs(score).mean(axis=0)
    mean, effective = effective_cases(np.add.reduceat(score, starts), cases, differing)
    p = exceeding_pairs(mean, differing, effective, 0.1)
    assert 0.02 < (p < 0.05).mean() < 0.06 and (p < 0.005).mean() < 0.0085
