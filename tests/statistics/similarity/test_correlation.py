"""Correlation of dissociation with task similarity, and the permutation tests behind it."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec import tables
from headspec.statistics.similarity.correlation import POOLED, correlation, ordinary_p
from headspec.statistics.similarity.mantel import (
    RANDOM,
    correlations,
    p_value,
    partial_correlations,
    relabellings,
)
from headspec.statistics.similarity.paired import paired
from support.schemas import SCHEMAS

RNG = np.random.default_rng(20230)


def names(k):
    return [f"t{index}" for index in range(k)]


def paradigms(k):
    """Single texts and pairs of texts in turn."""
    return {task: ("single", "pair")[index % 2] for index, task in enumerate(names(k))}


def study(similarity, dissociation, k):
    """Tables 'similarity' and 'combined' from {(model, measure): values of pairs} and {model: values}."""
    pairs = list(itertools.combinations(names(k), 2))
    alike = [
        dict(model=model, measure=measure, task_a=a, task_b=b, subject=subject, similarity=value + shift)
        for (model, measure), values in similarity.items()
        for (a, b), value in zip(pairs, values, strict=True)
        for subject, shift in ((None, 0), ("s1", 0.3))
    ]
    combined = [
        dict(
            model=model,
            mixture=f"{a}+{b}",
            method=method,
            task=task,
            dissociation=value + shift,
            at_chance=False,
        )
        for model, values in dissociation.items()
        for (a, b), value in zip(pairs, values, strict=True)
        for method, task, shift in (("tuned", "mean", 0), ("tuned", a, 0.1), ("frozen", "mean", -0.1))
    ]
    rows = {"similarity": alike, "combined": combined}
    return tuple(pd.DataFrame(rows[name], columns=list(SCHEMAS[name].columns)) for name in rows)


def correlated(similarity, dissociation, k, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = paired(*study(similarity, dissociation, k), paradigms(k), "tuned")
        return correlation(pairs, seed).set_index(["model", "measure"])


def matrix(values, k):
    full = np.zeros((k, k))
    full[np.triu_indices(k, 1)] = values
    return full + full.T


def brute_force(x, y, k, statistic):
    """p from permutations of complete matrices."""
    upper = np.triu_indices(k, 1)
    observed = abs(statistic(x, y))
    reached = [
        abs(statistic(matrix(x, k)[np.ix_(order, order)][upper], y)) >= observed - 1e-9
        for order in itertools.permutations(range(k))
    ]
    return sum(reached) / math.factorial(k)


def pearson(x, y):
    return np.corrcoef(x, y)[0, 1]


def rank(x, y):
    return stats.spearmanr(x, y).statistic


# --- the permutation test -----------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 4, 5])
def test_mantel_equals_brute_force(k):
    n = k * (k - 1) // 2
    for _ in range(3):
        x, y = RNG.normal(size=n), np.round(RNG.normal(size=n), 1)  # with ties among ranks
        row = correlated({("m", "rsa"): x}, {"m": y}, k).loc["m", "rsa"]
        assert row["pearson_r"] == pytest.approx(pearson(x, y))
        assert row["spearman_r"] == pytest.approx(rank(x, y))
        assert row["p_mantel"] == pytest.approx(brute_force(x, y, k, pearson))
        assert row["p_mantel_spearman"] == pytest.approx(brute_force(x, y, k, rank))
        assert row["exact"] and row["permutations"] == math.factorial(k)


def test_exact_p_of_three_tasks():
    """Three pairs in all six orders: only the identity reaches |r| = 1."""
    x = np.array([1.0, 2.0, 4.0])
    assert p_value(correlations(x, x, relabellings(3, 0)[0])) == 1 / 6
    assert p_value(correlations(x, np.array([1.0, 1.0, 2.0]), relabellings(3, 0)[0])) == 2 / 6
    small = 1e-12 * x  # small values are not constant ones
    assert p_value(correlations(small, x + 1, relabellings(3, 0)[0])) == 1 / 6


def test_random_relabellings_of_many_tasks():
    ways, exact = relabellings(9, 1)
    assert not exact and ways.shape == (RANDOM + 1, 36)
    assert ways[0].tolist() == list(range(36))
    assert all(sorted(way) == list(range(36)) for way in ways[:50])
    assert (ways == relabellings(9, 1)[0]).all() and (ways != relabellings(9, 2)[0]).any()
    x = RNG.normal(size=36)
    assert p_value(correlations(x, x, ways)) == 1 / (RANDOM + 1)


def test_random_p_approaches_exact_p(monkeypatch):
    x, y = RNG.normal(size=(2, 15))
    y += 0.5 * x
    exact = p_value(correlations(x, y, relabellings(6, 0)[0]))
    monkeypatch.setattr("headspec.statistics.similarity.mantel.EXACT", 5)
    drawn = p_value(correlations(x, y, relabellings(6, 0)[0]))
    assert drawn == pytest.approx(exact, abs=5 * 0.5 / RANDOM**0.5)


def test_level_with_dependent_pairs():
    """Every task affects all of its pairs; similarity and dissociation are independent.

    The ordinary test rejects far too often, the permutation test at its level. Bounds are more than
    four standard errors from the expected rates.
    """
    k, studies = 6, 600
    first, second = np.triu_indices(k, 1)
    rng = np.random.default_rng(7)
    ways, _ = relabellings(k, 0)
    ordinary, mantel = [], []
    for _ in range(studies):
        x, y = (e[first] + e[second] + 0.3 * rng.normal(size=15) for e in rng.normal(size=(2, k)))
        r = correlations(x, y, ways)
        ordinary.append(ordinary_p(r[0], 15))
        mantel.append(p_value(r))
    assert np.mean(np.array(ordinary) <= 0.05) > 0.1
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        error = (level * (1 - level) / studies) ** 0.5
        assert np.mean(np.array(mantel) <= level) == pytest.approx(level, abs=4.5 * error)


def test_eight_tasks_have_all_their_relabellings():
    x, y = RNG.normal(size=(2, 28))
    row = correlated({("m", "rsa"): x}, {"m": y}, 8).loc["m", "rsa"]
    assert row["permutations"] == 40_320 and row["exact"]


# --- input paradigm held constant ---------------------------------------------------------------


def partial_t(x, y, held):
    """t of the coefficient of x in the least squares of y on x and `held`."""
    design = np.stack([np.ones_like(x), x, held], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, y)
    residual = y - design @ coefficients
    variance = residual @ residual / (len(x) - 3) * np.linalg.inv(design.T @ design)[1, 1]
    return coefficients[1] / variance**0.5


@pytest.mark.parametrize("k", [4, 5])
def test_partial_correlation_equals_semi_partialling_in_closed_form(k):
    pairs = itertools.combinations(paradigms(k).values(), 2)
    held = np.array([float(a == b) for a, b in pairs])
    for _ in range(3):
        x, y = RNG.normal(size=(2, len(held))) + held
        row = correlated({("m", "rsa"): x}, {"m": y}, k).loc["m", "rsa"]
        rxy, rxz, ryz = pearson(x, y), pearson(x, held), pearson(y, held)
        closed = (rxy - rxz * ryz) / ((1 - rxz**2) * (1 - ryz**2)) ** 0.5
        assert row["partial_r"] == pytest.approx(closed)
        t = closed * ((len(x) - 3) / (1 - closed**2)) ** 0.5
        assert partial_t(x, y, held) == pytest.approx(t)
        residuals = x - np.polyval(np.polyfit(held, x, 1), held)
        expected = brute_force(residuals, y, k, lambda e, y, held=held: partial_t(e, y, held))
        assert row["p_partial"] == pytest.approx(expected)


def test_partial_correlation_if_the_paradigm_is_constant_or_explains_everything():
    x, y = RNG.normal(size=(2, 10))
    held = np.array([float(a == b) for a, b in itertools.combinations(paradigms(5).values(), 2)])
    table = correlated({("m", "paradigm"): held, ("m", "rsa"): x}, {"m": y}, 5).loc["m"]
    assert table.loc["paradigm", ["partial_r", "p_partial"]].isna().all()
    assert table.loc["paradigm", ["pearson_r", "p_mantel"]].notna().all()
    assert table.loc["rsa", ["partial_r", "p_partial"]].notna().all()
    explained = correlated({("m", "rsa"): x}, {"m": 0.3 - 0.2 * held}, 5).loc["m", "rsa"]
    assert explained[["partial_r", "p_partial"]].isna().all() and explained["pearson_r"] < 1
    ways, _ = relabellings(5, 0)
    assert np.isnan(partial_correlations(x, y, np.ones(10), ways)).all()
    few = correlated({("m", "rsa"): x[:3]}, {"m": y[:3]}, 3).loc["m", "rsa"]
    assert few[["partial_r", "p_partial"]].isna().all() and few["p_mantel"] > 0


# --- the table ----------------------------------------------------------------------------------


def test_line_and_ordinary_p_equal_scipy():
    x, y = RNG.normal(size=(2, 10))
    row = correlated({("m", "cka"): x}, {"m": y}, 5).loc["m", "cka"]
    line = stats.linregress(x, y)
    assert row[["slope", "intercept", "p_pearson"]].tolist() == pytest.approx(
        [line.slope, line.intercept, line.pvalue]
    )
    assert row["p_spearman"] == pytest.approx(stats.spearmanr(x, y).pvalue)
    assert row["n_pairs"] == 10
    assert ordinary_p(-1.0, 5) == 0 and ordinary_p(0.0, 5) == pytest.approx(1)


def test_pairs_use_means_over_subjects_and_tasks_of_the_method():
    x, y = RNG.normal(size=(2, 3))
    pairs = paired(*study({("m", "cnm"): x}, {"m": y}, 3), paradigms(3), "frozen")
    assert pairs["mixture"].tolist() == ["t0+t1", "t0+t2", "t1+t2"]
    assert pairs["same_paradigm"].tolist() == [False, True, False]
    np.testing.assert_allclose(pairs["similarity"], x)
    np.testing.assert_allclose(pairs["dissociation"], y - 0.1)


def test_pooled_models_are_relabelled_together():
    x, y = RNG.normal(size=(2, 15))
    alike = {(model, "rsa"): x for model in "ab"}
    twice = correlated(alike, {"a": y, "b": 2 + 3 * y}, 6)
    pooled, single = twice.loc[POOLED, "rsa"], twice.loc["a", "rsa"]
    same = ["pearson_r", "spearman_r", "partial_r", "p_mantel", "p_mantel_spearman", "p_partial"]
    assert pooled[same].tolist() == pytest.approx(single[same].tolist())
    assert pooled[["n_pairs", "permutations"]].tolist() == [30, 720]
    assert pooled[["slope", "intercept"]].tolist() == pytest.approx([single["pearson_r"], 0])
    assert pooled[["p_pearson", "p_spearman"]].isna().all()


def test_pooled_p_of_two_models_by_brute_force():
    k, n = 4, 6
    x, y = RNG.normal(size=(2, 2, n))
    table = correlated({("a", "rsa"): x[0], ("b", "rsa"): x[1]}, {"a": y[0], "b": y[1]}, k)
    upper = np.triu_indices(k, 1)

    def mean_r(order):
        moved = [matrix(values, k)[np.ix_(order, order)][upper] for values in x]
        return np.mean([pearson(*pair) for pair in zip(moved, y, strict=True)])

    assert table.loc[(POOLED, "rsa"), "pearson_r"] == pytest.approx(mean_r(range(k)))
    reached = [
        abs(mean_r(order)) >= abs(mean_r(range(k))) - 1e-9 for order in itertools.permutations(range(k))
    ]
    assert table.loc[(POOLED, "rsa"), "p_mantel"] == pytest.approx(np.mean(reached))


def test_a_task_that_a_model_has_not_learnt_is_in_no_correlation():
    """The last of five tasks, in one of its pairs: what is left is a study of the other four."""
    k, n = 5, 10
    x, y = RNG.normal(size=(2, 2, n))
    alike = {(model, "rsa"): values for model, values in zip("ab", x, strict=True)}
    similarity, combined = study(alike, dict(zip("ab", y, strict=True)), k)
    nothing = (combined[["model", "mixture", "method", "task"]] == ["a", "t1+t4", "tuned", "mean"]).all(
        axis=1
    )
    rows = combined[nothing].assign(task="t4")
    combined = pd.concat([combined[~nothing], combined[nothing], rows]).assign(unpruned_at_chance=False)
    combined.loc[combined["task"].eq("t4"), "unpruned_at_chance"] = True
    combined.loc[combined["method"].eq("frozen"), "unpruned_at_chance"] = True  # of another method
    pairs = paired(similarity, combined, paradigms(k), "tuned")
    assert set(pairs.loc[pairs["left_out"], "mixture"]) == {f"t{i}+t4" for i in range(4)}
    assert set(pairs.loc[pairs["left_out"], "model"]) == {"a"}
    found = correlation(pairs, 0).set_index("model")
    learnt = [i for i, pair in enumerate(itertools.combinations(range(k), 2)) if 4 not in pair]
    four = correlated(
        {key: values[learnt] for key, values in alike.items()},
        {model: values[learnt] for model, values in zip("ab", y, strict=True)},
        4,
    ).reset_index("measure", drop=True)
    pd.testing.assert_series_equal(found.loc["a"].drop("measure"), four.loc["a"], check_names=False)
    pd.testing.assert_series_equal(found.loc[POOLED].drop("measure"), four.loc[POOLED], check_names=False)
    assert found["n_pairs"].to_dict() == {"a": 6, "b": 10, POOLED: 12}


@pytest.mark.parametrize("k", [2, 3, 5])
def test_undefined_correlations_are_null(k, tmp_path):
    n = k * (k - 1) // 2
    x = np.linspace(0, 1, n)
    gap = np.where(np.arange(n) == 0, np.nan, x)
    alike = {("a", "constant"): np.full(n, 0.1 + 0.2), ("a", "gap"): gap, ("a", "few"): x}
    alike |= {("b", measure): x for _, measure in alike}
    table = correlated(alike, {"a": -(x**2), "b": np.full(n, 0.3)}, k)
    values = table.drop(columns="n_pairs")
    assert values.drop(index=("a", "few"), errors="ignore").isna().all(axis=None)
    if n > 2:
        assert values.loc[("a", "few"), "p_mantel"] > 0
        assert table.loc[("a", "gap"), "n_pairs"] == n - 1
    tables.write(tmp_path / "c.parquet", SCHEMAS["correlation"], table.reset_index(), {})
    assert len(tables.read(tmp_path / "c.parquet")) == len(table)
