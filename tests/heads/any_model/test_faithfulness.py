"""Faithfulness of closed heads: ratios of means, their intervals, and where there is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import headspec
from headspec.heads.any_model.curves.faithfulness import faithfulness
from support.model_types import any_model

SHARES = ["faithfulness", "faithfulness_low", "faithfulness_high"]


def drawn(seed: int, n: int, sets: int):
    rng = np.random.default_rng(seed)
    example = rng.normal(size=n)
    values = 1 + example + rng.normal(size=(sets, 1)) / 4 + rng.normal(size=(sets, n)) / 4
    return values, 3 + example, rng.normal(size=n) / 2


@given(seed=st.integers(0, 999), n=st.integers(5, 80), confidence=st.floats(0.5, 0.99))
def test_ends_are_shares_at_which_a_paired_t_test_is_at_its_level(seed, n, confidence):
    values, unpruned, closed = drawn(seed, n, 1)
    share, *ends = faithfulness(values, unpruned, closed, confidence)
    kept, whole = values[0] - closed, unpruned - closed
    assert share == pytest.approx(kept.mean() / whole.mean())
    everything = np.concatenate([values[0], unpruned, closed])
    width, t = np.ptp(everything), stats.t.ppf((1 + confidence) / 2, n - 1)
    assert np.isfinite(ends).all() or np.isinf(ends).all()
    for end in ends if np.isfinite(ends).all() else ():
        apart = kept - end * whole
        error = np.sqrt(np.append(apart, [-width, width]).var() / (n + 2))
        assert abs(apart.mean()) == pytest.approx(t * error, rel=1e-6)
    assert ends[0] < share < ends[1]


@given(
    seed=st.integers(0, 999), sets=st.sampled_from([1, 5, 20]), scale=st.sampled_from([-3, -0.01, 0.5, 100]),
    moved=st.floats(-10, 10),
)  # fmt: skip
def test_it_is_the_same_in_any_unit_and_direction(seed, sets, scale, moved):
    whole = drawn(seed, 30, sets)
    expected = faithfulness(*whole, 0.95)
    found = faithfulness(*(moved + scale * each for each in whole), 0.95)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_random_sets_that_differ_have_wider_intervals():
    values, unpruned, closed = drawn(0, 60, 5)
    same = np.repeat(values.mean(axis=0)[None], 5, axis=0)
    (share, *wide), (again, *narrow) = (faithfulness(each, unpruned, closed, 0.95) for each in (values, same))
    assert share == pytest.approx(again) and wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(("right", "finite"), [(10, None), (11, False), (20, True)])
def test_it_is_undefined_if_all_heads_do_nothing_and_unknown_if_they_may_do_nothing(right, finite):
    """Of 20 answers, 10 are right without any head."""
    closed, unpruned = np.arange(20) % 2 == 0, np.arange(20) < right
    values = (np.arange(20) < 10)[None]
    share, low, high = faithfulness(*(1.0 * each for each in (values, unpruned, closed)), 0.95, (0, 1))
    if finite is None:
        assert np.isnan([share, low, high]).all()
    else:
        assert share == 0 and (np.isfinite([low, high]).all() if finite else (low, high) == (-np.inf, np.inf))


def test_right_answers_without_exception_are_not_certain():
    ones, zeros = np.ones(20), np.arange(20) % 2.0
    share, low, high = faithfulness(ones[None], ones, zeros, 0.95, (0, 1))
    assert share == pytest.approx(1) and low < 0.8 and high > 1.2


@pytest.mark.parametrize("metric", ["accuracy", None])
def test_curves_have_it_for_every_set(metric):
    model, batches = any_model.model("roberta"), any_model.batches("roberta")
    scores = np.arange(8.0).reshape(2, 4)
    curve = headspec.head_curve(model, batches, metric=metric, fractions=[0.25, 0.5], draws=5, scores=scores)
    first, last = curve.iloc[0], curve.iloc[-1]
    assert (first["order"], last["order"], last["fraction"], last["heads"]) == ("none", "all", 1, 8)
    whole = first["value"] - last["value"]
    if whole:
        np.testing.assert_allclose(curve["faithfulness"], (curve["value"] - last["value"]) / whole, atol=1e-9)
        assert first[SHARES].tolist() == [1, 1, 1] and last[SHARES].tolist() == [0, 0, 0]
    else:
        assert curve[SHARES].isna().all(axis=None)
