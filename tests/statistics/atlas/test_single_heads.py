"""Metric changes of single heads: closed forms, coverage of intervals, level of tests."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec.errors import DataError
from headspec.statistics.atlas.single_heads import SINGLE_HEADS, single_heads
from headspec.statistics.dissociation.pruned import PrunedPredictions
from support.data.evaluations import evaluated


def evaluation(plain: np.ndarray, closed: dict, seed: int = 0) -> PrunedPredictions:
    """Right or wrong predictions; closed: {(measure, layer, head): (n,) bool}."""
    predictions = {("a", None, None, None): plain} | {("a", *head): right for head, right in closed.items()}
    return evaluated(["task", "measure", "layer", "head"], predictions, seed=seed)


def test_changes_in_closed_form():
    plain = np.arange(100) < 80
    closed = {("ablation", 0, 0): plain, ("ablation", 1, 3): np.arange(100) < 50,
              ("mean_ablation", 1, 3): np.arange(100) < 84}  # fmt: skip
    table = single_heads([evaluation(plain, closed)], 999, 0.95, 0)
    assert list(table.columns) == list(SINGLE_HEADS.columns) and len(table) == 3
    rows = table.set_index(["measure", "layer", "head"])
    assert rows["change"].tolist() == pytest.approx([0, -0.3, 0.04]) and (rows["base"] == 0.8).all()
    same = rows.loc[("ablation", 0, 0)]
    assert same["p_value"] == same["p_holm"] == 1 and same["ci_low"] == same["ci_high"] == 0
    worse = rows.loc[("ablation", 1, 3)]
    # 30 of 100 examples change, all in one direction: the bootstrap is binomial
    low, high = -stats.binom.ppf([0.975, 0.025], 100, 0.3) / 100
    assert [worse["ci_low"], worse["ci_high"]] == pytest.approx([low, high], abs=0.015)
    assert worse["p_value"] == 0.001 and worse["p_holm"] == 0.002
    better = rows.loc[("mean_ablation", 1, 3)]  # four examples change: 2 * 2**-4 by the sign test
    assert better["p_value"] == better["p_holm"] == pytest.approx(0.125, abs=0.04)


def test_resamples_are_enough_for_corrected_p_and_named_by_seed():
    u, heads = np.random.default_rng(0).random(60), 30
    closed = {("ablation", 0, head): u < 0.9 - head / 40 for head in range(heads)}
    few, enough, other = (
        single_heads([evaluation(u < 0.9, closed)], resamples, 0.95, seed)
        for resamples, seed in ((9, 1), (40 * (heads + 1), 1), (9, 2))
    )
    pd.testing.assert_frame_equal(few, enough)
    assert few["p_holm"].min() < 0.05 and not few["ci_low"].equals(other["ci_low"])


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 3])
def test_coverage_and_level(seeds):
    """Head 0 lowers accuracy by a known amount, head 1 changes examples in both directions."""
    rng, runs, n = np.random.default_rng(5), 200, 150
    covered = rejected = 0
    changes, widths = [], []
    for _ in range(runs):
        shared, evaluations = rng.random(n), []
        for seed in range(seeds):
            u = np.where(rng.random(n) < 0.5, shared, rng.random(n))
            again = np.where(rng.random(n) < 0.7, u, rng.random(n))
            closed = {("ablation", 0, 0): again < 0.7, ("ablation", 0, 1): again < 0.8}
            evaluations.append(evaluation(u < 0.8, closed, seed))
        table = single_heads(evaluations, 199, 0.9, 0)
        covered += table["ci_low"][0] <= -0.1 <= table["ci_high"][0]
        rejected += table["p_value"][1] <= 0.1
        changes.append(table["change"][0])
        widths.append(table["ci_high"][0] - table["ci_low"][0])
    low, high = stats.binom.ppf([0.002, 0.998], runs, [0.88, 0.92])
    assert low <= covered <= (high if seeds == 1 else runs), covered
    # of a normal distribution; that of t with few seeds is wider
    wide = np.mean(widths) / (2 * 1.645 * np.std(changes))
    assert 0.85 < wide < (1.2 if seeds == 1 else 1.7), wide
    most, least = stats.binom.ppf([0.998, 0.002], runs, [0.1, 0.07])
    assert least <= rejected <= most, rejected


def test_other_examples_are_refused():
    plain, head = np.arange(20) < 15, ("ablation", 0, 0)
    one, fewer = (evaluation(plain[:n], {head: plain[:n]}, seed=20 - n) for n in (20, 19))
    with pytest.raises(DataError, match="seed1/ablated.parquet: examples or heads of task 'a' differ"):
        single_heads([one, fewer], 9, 0.9, 0)
    with pytest.raises(DataError, match="task 'a' lacks predictions of some examples"):
        single_heads([evaluation(plain, {head: plain[:18]})], 9, 0.9, 0)
