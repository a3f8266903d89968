"""Resampling of examples against slow draws and closed forms, and p-values with their correction."""

import numpy as np
import pytest
from scipy import stats

from headspec.statistics.resampling import (
    holm,
    interval,
    p_value,
    paired_differences,
    permutations,
    permuted_scores,
)
from headspec.tasks.metrics import bootstrap_counts
from support.data.evaluations import binary


def test_holm_in_closed_form():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, np.nan, 0.04]), [0.6, np.nan, 0.08])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])


def test_p_value_counts_both_sides_and_the_observed_one():
    null = np.array([-3.0, -1, 0, 1, 2, 3, 0.5, 0, 0])
    assert [float(p_value(d, null)) for d in (3.0, -2, 0, 4)] == pytest.approx([0.3, 0.4, 1.0, 0.1])
    assert np.isnan(p_value(np.nan, null))


def test_interval_is_undefined_if_a_resample_is():
    low, high = interval(np.array([[0.0, 1], [1, np.nan], [2, 1]]), 0.5)
    np.testing.assert_array_equal([low, high], [[0.5, np.nan], [1.5, np.nan]])


def test_bootstrap_counts_draw_n_of_n():
    counts = bootstrap_counts(50, 400, np.random.default_rng(0))
    assert counts.shape == (400, 50) and (counts.sum(axis=1) == 50).all()
    assert counts.var() == pytest.approx(1 - 1 / 50, rel=0.1)  # binomial(50, 1/50)


@pytest.mark.parametrize("k", [2, 3])
def test_permutations_are_those_of_numpy(k):
    """Also the state that they leave, with odd numbers of them."""
    ours, numpys = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(2):
        drawn = permutations((7, 3, k), ours)
        expected = numpys.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), (7, 3, k)), axis=-1)
        np.testing.assert_array_equal(drawn, expected)
    assert ours.random() == numpys.random()


@pytest.mark.parametrize("k", [2, 3])
def test_permutations_of_an_additive_metric_have_the_exact_variance(k):
    """Accuracy of one slot: every example is a Bernoulli variable with its share of right alternatives."""
    rng = np.random.default_rng(1)
    correct = rng.random((80, k)) < 0.7
    shuffled = permuted_scores("accuracy", np.ones(80), correct.T[None].astype(float), 4000, rng)[:, 0]
    share = correct.mean(axis=1)
    np.testing.assert_allclose(shuffled.sum(axis=1), correct.mean(axis=0).sum())  # none is right twice
    assert shuffled.mean(axis=0) == pytest.approx([share.mean()] * k, abs=0.003)
    expected = np.sqrt((share * (1 - share)).sum()) / 80
    assert shuffled.std(axis=0) == pytest.approx([expected] * k, rel=0.06)


def by_row(metric, label, prediction):
    """The metric of every row of labels and predictions (resamples, n), by its textbook formula."""
    if metric == "f1":
        return 2 * (label * prediction).sum(axis=1) / (label + prediction).sum(axis=1)
    if metric == "spearman":
        label, prediction = stats.rankdata(label, axis=1), stats.rankdata(prediction, axis=1)
    x, y = (values - values.mean(axis=1, keepdims=True) for values in (label, prediction))
    return (x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))


def by_example(metric, label, method, base, resamples, rng):
    """`paired_differences`, with every example drawn and swapped by itself."""
    n, bootstrap, null = len(label), [], []
    rows, swap = rng.integers(n, size=(resamples, n)), rng.random((resamples, n)) < 0.5
    labels = np.broadcast_to(label, swap.shape)
    for a, b in zip(method, base, strict=True):
        bootstrap.append(by_row(metric, label[rows], a[rows]) - by_row(metric, label[rows], b[rows]))
        here, there = np.where(swap, b, a), np.where(swap, a, b)
        null.append(by_row(metric, labels, here) - by_row(metric, labels, there))
    return np.stack(bootstrap, axis=1), np.stack(null, axis=1)


@pytest.mark.parametrize("metric", ["f1", "matthews", "spearman"])
def test_drawing_kinds_of_examples_equals_drawing_examples(metric):
    rng = np.random.default_rng(0)
    label, method, base = binary(rng)
    if metric == "spearman":
        method, base = method + rng.normal(size=method.shape), base + rng.normal(size=base.shape)
    fast, slow = (
        draw(metric, label, method, base, 4000, np.random.default_rng(1))
        for draw in (paired_differences, by_example)
    )
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape == (4000, 3)
        assert one.mean(axis=0) == pytest.approx(other.mean(axis=0), abs=0.006)
        np.testing.assert_allclose(np.cov(one.T), np.cov(other.T), rtol=0.12, atol=9e-4)


def test_paired_differences_of_accuracy_in_closed_form():
    """Variance of the mean difference: variance over examples / n; mean square / n when swapped."""
    label, method, base = binary(np.random.default_rng(2), n=200)
    differences = (method == label).mean(axis=0) - (base == label).mean(axis=0)
    bootstrap, null = paired_differences("accuracy", label, method, base, 8000, np.random.default_rng(3))
    assert bootstrap.mean() == pytest.approx(differences.mean(), abs=0.001)
    assert bootstrap.mean(axis=1).std() == pytest.approx(differences.std() / 200**0.5, rel=0.03)
    assert null.mean() == pytest.approx(0, abs=0.001)
    assert null.mean(axis=1).std() == pytest.approx((differences**2).mean() ** 0.5 / 200**0.5, rel=0.03)


def test_seeds_that_predict_the_same_add_no_information():
    label, *both = binary(np.random.default_rng(4), seeds=1)
    one, three = (
        paired_differences("f1", label, *(np.repeat(p, seeds, 0) for p in both), 50, np.random.default_rng(5))
        for seeds in (1, 3)
    )
    np.testing.assert_array_equal(np.repeat(one, 3, axis=2), three)
