"""Agreement of measures: closed forms, pairing, and coverage of its intervals through the public function."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr, t

from headspec.atlas.sample import FOLDS, measure_folds, sampled
from headspec.config.runs import Run
from headspec.seeds import derive
from headspec.statistics.atlas.measures import (  # fmt: skip
    AGREEMENT,
    agreement,
    fold_interval,
    head_values,
    resampled_means,
    unbiased,
)
from headspec.statistics.intervals import over_seeds_and_examples
from support.data.elements import elements

HEADS = 72


def run(seed: int = 0) -> Run:
    return Run("m", "a+b", ("a",), "tuned", seed)


def folds(values: np.ndarray) -> pd.DataFrame:
    """Fold means (folds, measures, heads) as a table."""
    frame = elements("fold", "measure", "head", value=values).assign(task="a", n=50)
    heads = {"measure": "m" + frame["measure"].astype(str), "layer": frame["head"] // 12}
    return frame.assign(**heads, head=frame["head"] % 12)


def agreed(*measures: np.ndarray, fraction: float = 0.3, resamples: int = 20, **more) -> pd.Series:
    """The row of two measures, (folds, heads) each."""
    frame = folds(np.stack(measures, axis=1))
    return agreement([(run(), frame)], fraction, resamples, **{"confidence": 0.95, "seed": 0} | more).iloc[0]


def jaccard(a: np.ndarray, b: np.ndarray, size: int) -> float:
    top_a, top_b = (set(np.argsort(-values)[:size]) for values in (a, b))
    return len(top_a & top_b) / len(top_a | top_b)


def test_examples_are_the_same_for_all_and_folds_are_means():
    rows = sampled("a", 100, 30)
    assert len(set(rows)) == 30 and (sampled("a", 100, 30) == rows).all()
    assert set(sampled("a", 100, 30)) <= set(sampled("a", 100, 60)) and len(sampled("a", 7, 30)) == 7
    values = np.random.default_rng(0).random((30, 2, 3))
    frame = measure_folds("a", "x", values)
    first = frame[(frame["fold"] == 1) & (frame["layer"] == 1) & (frame["head"] == 2)].iloc[0]
    assert first["value"] == pytest.approx(values[[1, 21], 1, 2].mean()) and first["n"] == 2
    sizes = frame.groupby("fold")["n"].first()
    assert len(sizes) == FOLDS and sizes.sum() == 30
    value = head_values(run(), frame, 0.95).set_index(["layer", "head"])["value"].unstack()
    np.testing.assert_allclose(value, values.mean(axis=0))


def test_a_bootstrap_of_folds_has_the_mean_and_spread_of_their_mean():
    rng = np.random.default_rng(0)
    values, n = rng.normal([[0, 5, 9]], 1, (10, 3)), np.arange(1.0, 11)
    means = resampled_means(values, n, 4000, seed=1)
    assert (means == resampled_means(values, n, 4000, seed=1)).all()
    np.testing.assert_allclose(means.mean(axis=0), np.average(values, axis=0, weights=n), atol=0.1)
    assert means[:, 1] == pytest.approx(resampled_means(values[:, 1], n, 4000, seed=1))
    np.testing.assert_allclose(unbiased(np.array([[0.0], [2]]), 2), [[1 - 2**0.5], [1 + 2**0.5]])
    wider = unbiased(means, 10)
    np.testing.assert_allclose(wider.mean(axis=0), means.mean(axis=0))
    np.testing.assert_allclose(wider.std(axis=0), means.std(axis=0) * np.sqrt(10 / 9))


def test_intervals_of_folds_are_those_of_t_and_cover_three_seeds_as_well():
    rng = np.random.default_rng(0)
    estimate, bootstrap = rng.random((3, 2)), rng.random((50, 3, 2))
    several = over_seeds_and_examples(estimate, bootstrap, 0.9)
    for found, expected in zip(fold_interval(estimate, bootstrap, 10, 0.9), several, strict=True):
        assert np.array_equal(found, expected)
    low, high, over = fold_interval(estimate[:2], bootstrap[:, :2], 10, 0.9)
    reach = t.ppf(0.95, 9) * bootstrap[:, :2].mean(axis=1).std(axis=0)
    np.testing.assert_allclose([low, high], estimate[:2].mean(axis=0) + np.outer([-1, 1], reach))
    assert over == "examples"


def test_values_of_heads_have_the_interval_of_t_over_folds():
    """Fold means 1, 2, 3 in one head, and 0, 0, 4, the last of as many examples as the others, in another."""
    frame = folds(np.array([[[1.0, 0]], [[2, 0]], [[3, 4]]]))
    frame.loc[frame["fold"] == 2, "n"] = 100
    found = head_values(run(7), frame[::-1], 0.9)
    assert found["head"].tolist() == [0, 1] and found["n"].tolist() == [200, 200]
    assert (found["seed"] == 7).all() and (found["mixture"] == "a+b").all()
    value, spread = np.array([2.25, 2]), np.array([0.6875, 4])  # 23/4 - 81/16 and 16/2 - 4
    reach = t.ppf(0.95, 2) * np.sqrt(spread / 2)
    np.testing.assert_allclose(found[["value", "ci_low", "ci_high"]].T, [value, value - reach, value + reach])


def test_agreement_is_that_of_the_weighted_means():
    rng = np.random.default_rng(2)
    values = rng.random((FOLDS, 2, HEADS))
    frame = folds(values)
    frame.loc[frame["fold"] == 3, "n"] = 500
    weights = np.where(np.arange(FOLDS) == 3, 500, 50)
    a, b = np.average(values, axis=0, weights=weights)
    first, again, other = (agreement([(run(), frame)], 0.3, 20, 0.95, seed) for seed in (0, 0, 1))
    assert first.equals(again) and not first["spearman_low"].equals(other["spearman_low"])
    assert first["spearman"].item() == pytest.approx(spearmanr(a, b).statistic)
    for fraction, size in ((0.3, 21), (0.25, 18), (0.29 / 7.2, 2), (0.01, 1)):  # at least one head
        overlap = agreement([(run(), frame)], fraction, 20, 0.95, 0)["top_overlap"].item()
        assert overlap == pytest.approx(jaccard(a, b, size))


def test_intervals_are_of_the_resampled_folds_of_the_task():
    values = np.random.default_rng(4).random((FOLDS, 2, HEADS))
    row = agreed(*values.swapaxes(0, 1), seed=3)
    assert row[["model", "mixture", "method", "task", "n_seeds"]].tolist() == ["m", "a+b", "tuned", "a", 1]
    means = resampled_means(values, np.full(FOLDS, 50.0), 20, derive(3, "agreement", "a"))
    deviation = np.std([spearmanr(*mean).statistic for mean in means]) * np.sqrt(FOLDS / (FOLDS - 1))
    reach = t.ppf(0.975, FOLDS - 1) * deviation
    assert row["spearman_high"] - row["spearman"] == pytest.approx(reach)
    assert row["spearman"] - row["spearman_low"] == pytest.approx(reach)


def test_agreement_in_closed_form():
    rng = np.random.default_rng(1)
    value = rng.random((FOLDS, HEADS)) * 0.01 + np.arange(HEADS)
    three = agreement([(run(), folds(np.stack([value, -value, value], axis=1)))], 0.25, 50, 0.95, 0)
    assert list(three) == list(AGREEMENT.columns)
    rows = three.set_index(["measure_a", "measure_b"])
    assert list(rows.index) == [("m0", "m1"), ("m0", "m2"), ("m1", "m2")]
    opposite, same = rows.iloc[0], rows.iloc[1]
    assert opposite["spearman"] == pytest.approx(-1) and opposite["top_overlap"] == 0
    assert same[["spearman", "spearman_low", "top_overlap"]].tolist() == pytest.approx([1, 1, 1])
    assert same["ci_over"] == "examples"
    noisy = value + rng.normal(0, 3, (FOLDS, HEADS))
    wide = {"fraction": 0.01, "resamples": 50, "confidence": 0.999999}
    assert agreed(value, noisy, **wide)["top_overlap_high"] == 1  # ends of intervals are clipped
    assert agreed(value, -noisy, **wide)["spearman_low"] == -1
    constant = agreed(value, np.full((FOLDS, HEADS), 0.5))
    assert constant["spearman"] == constant["spearman_low"] == constant["spearman_high"] == 0
    two = agreed(*np.tile([[[0.0, 1]], [[1, 0]]], (1, FOLDS, 1)))  # of two heads, one is on top
    assert two["spearman"] == pytest.approx(-1) and two["top_overlap"] == 0
    first = agreed(*np.tile([[-np.arange(float(HEADS))], [np.zeros(HEADS)]], (1, FOLDS, 1)))
    assert first["top_overlap"] == 1  # of heads with the same value, the first
    empty = agreement([], 0.25, 50, 0.95, 0)
    assert empty.empty and list(empty) == list(three)


def simulated(rng: np.random.Generator, rho: float, noise: float, seeds: int) -> tuple[bool, bool]:
    """Whether the intervals cover the agreement of two measures without noise: (Spearman, overlap)."""
    a = rng.standard_normal(HEADS)
    b = rho * a + np.sqrt(1 - rho**2) * rng.standard_normal(HEADS)
    true = np.exp(np.stack([a, b]))
    examples = rng.standard_normal((FOLDS, 1, HEADS))  # shared by measures and seeds
    runs = [
        (run(s), folds(true * (1 + noise * (examples + rng.standard_normal((FOLDS, 2, HEADS))) / 2**0.5)))
        for s in range(seeds)
    ]
    row = agreement(runs, 0.3, 100, 0.95, 0).iloc[0]
    spearman, overlap = spearmanr(*true).statistic, jaccard(*true, 21)
    covered = row["top_overlap_low"] - 1e-9 <= overlap <= row["top_overlap_high"] + 1e-9
    return row["spearman_low"] <= spearman <= row["spearman_high"], covered


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(("rho", "noise"), [(0, 1.0), (0.5, 0.3), (0.9, 0.3)])
def test_intervals_cover_what_they_say(seeds, rho, noise):
    rng = np.random.default_rng(5)
    spearman, overlap = np.mean([simulated(rng, rho, noise, seeds) for _ in range(120)], axis=0)
    assert 0.86 < spearman < 0.99 and 0.76 < overlap < 0.98


def test_head_values_cover_their_mean():
    rng, covered = np.random.default_rng(6), []
    for _ in range(40):
        frame = head_values(run(), measure_folds("a", "x", rng.exponential(1.0, (300, 6, 12))), 0.95)
        covered.append(((frame["ci_low"] <= 1) & (frame["ci_high"] >= 1)).mean())
    assert 0.93 < np.mean(covered) < 0.97
