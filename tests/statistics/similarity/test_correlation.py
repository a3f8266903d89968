"""Correlation of dissociation with task similarity, and the permutation tests behind it."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec import tables
from headspec.statistics.correlation import (
    POOLED,
    RANDOM,
    correlation,
    mantel_p,
    matrix_correlations,
    paired,
    partial_correlations,
    relabellings,
)
from support.schemas import SCHEMAS

RNG = np.random.default_rng(20230)


def pairs_of(k):
    return list(itertools.combinations([f"t{index}" for index in range(k)], 2))


def paradigms(k):
    """Single texts and pairs of texts in turn."""
    return {f"t{index}": ("single", "pair")[index % 2] for index in range(k)}


def same_paradigm(k):
    return np.array([float(a == b) for a, b in itertools.combinations(paradigms(k).values(), 2)])


def study(similarity, dissociation, k):
    """Tables 'similarity' and 'combined' from {(model, measure): values of pairs} and {model: values}."""
    alike = [
        dict(model=model, measure=measure, task_a=a, task_b=b, subject=subject, similarity=value + shift)
        for (model, measure), values in similarity.items()
        for (a, b), value in zip(pairs_of(k), values, strict=True)
        for subject, shift in ((None, 0), ("s1", 0.3))
    ]
    combined = [
        dict(model=model, mixture=f"{a}+{b}", method=method, task=task, dissociation=value + shift)
        for model, values in dissociation.items()
        for (a, b), value in zip(pairs_of(k), values, strict=True)
        for method, task, shift in (("tuned", "mean", 0), ("tuned", a, 0.1), ("frozen", "mean", -0.1))
    ]
    rows = {"similarity": alike, "combined": combined}
    return tuple(pd.DataFrame(rows[name], columns=list(SCHEMAS[name].columns)) for name in rows)


def correlated(similarity, dissociation, k):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = paired(*study(similarity, dissociation, k), paradigms(k), "tuned")
        return correlation(pairs, 0).set_index(["model", "measure"])


def pearson(x, y):
    return np.corrcoef(x, y)[0, 1]


def rank(x, y):
    return stats.spearmanr(x, y).statistic


def partial(held):
    """The partial correlation given `held`, in closed form."""

    def r(x, y):
        rxy, rxz, ryz = pearson(x, y), pearson(x, held), pearson(y, held)
        return (rxy - rxz * ryz) / ((1 - rxz**2) * (1 - ryz**2)) ** 0.5

    return r


def brute_force(xs, ys, k, statistic):
    """Mean statistic of several x and y, and its p from permutations of complete matrices, alike for all."""
    upper, found = np.triu_indices(k, 1), []
    matrices = np.zeros((len(xs), k, k))
    matrices[:, *upper] = xs
    matrices += matrices.swapaxes(1, 2)
    for order in itertools.permutations(range(k)):
        moved = [matrix[np.ix_(order, order)][upper] for matrix in matrices]
        found.append(np.mean([statistic(x, y) for x, y in zip(moved, ys, strict=True)]))
    return found[0], np.mean(np.abs(found) >= abs(found[0]) - 1e-9)


@pytest.mark.parametrize("k", [3, 4, 5])
def test_every_column_is_that_of_brute_force_and_of_scipy(k):
    """Of each model; and pooled, where r is the mean over models, whose tasks are relabelled together."""
    held, n = same_paradigm(k), k * (k - 1) // 2
    x = RNG.normal(size=(2, n)) + held
    y = np.round(RNG.normal(size=(2, n)) + held, 1)  # with ties among ranks
    table = correlated({("a", "rsa"): x[0], ("b", "rsa"): x[1]}, dict(zip("ab", y, strict=True)), k)
    rest = [each - np.polyval(np.polyfit(held, each, 1), held) for each in x]
    tests = {("pearson_r", "p_mantel"): (x, pearson), ("spearman_r", "p_mantel_spearman"): (x, rank)}
    if k > 3:  # semi-partialling: residuals of similarity are relabelled
        tests["partial_r", "p_partial"] = rest, partial(held)
    for model, members in {"a": [0], "b": [1], POOLED: [0, 1]}.items():
        row = table.loc[model, "rsa"]
        for columns, (values, statistic) in tests.items():
            expected = brute_force([values[i] for i in members], y[members], k, statistic)
            assert row[list(columns)].tolist() == pytest.approx(expected)
        assert (
            row["exact"] and row["permutations"] == math.factorial(k) and row["n_pairs"] == n * len(members)
        )
        if model == POOLED:
            line = row["pearson_r"], 0
        else:
            fit = stats.linregress(x[members[0]], y[members[0]])
            line = fit.slope, fit.intercept
        assert row[["slope", "intercept"]].tolist() == pytest.approx(line)
    assert k > 3 or table[["partial_r", "p_partial"]].isna().all(axis=None)


def test_p_in_closed_form():
    """Three pairs in all six orders: only the identity reaches |r| = 1; small values are not constant."""
    x, ways = np.array([1.0, 2.0, 4.0]), relabellings(3, 0)[0]
    assert (
        mantel_p(matrix_correlations(x, x, ways))
        == mantel_p(matrix_correlations(1e-12 * x, x + 1, ways))
        == 1 / 6
    )
    assert mantel_p(matrix_correlations(x, np.array([1.0, 1.0, 2.0]), ways)) == 2 / 6


def test_eight_tasks_have_all_relabellings_and_nine_have_random_ones():
    ways, exact = relabellings(8, 0)
    assert exact and ways.shape == (40_320, 28)
    ways, exact = relabellings(9, 1)
    assert not exact and ways.shape == (RANDOM + 1, 36)
    assert ways[0].tolist() == list(range(36))
    assert all(sorted(way) == list(range(36)) for way in ways[:50])
    assert (ways == relabellings(9, 1)[0]).all() and (ways != relabellings(9, 2)[0]).any()
    x = RNG.normal(size=36)
    assert mantel_p(matrix_correlations(x, x, ways)) == 1 / (RANDOM + 1)


def test_random_p_approaches_exact_p(monkeypatch):
    x, y = RNG.normal(size=(2, 15))
    y += 0.5 * x
    exact = mantel_p(matrix_correlations(x, y, relabellings(6, 0)[0]))
    monkeypatch.setattr("headspec.statistics.correlation.EXACT", 5)
    drawn = mantel_p(matrix_correlations(x, y, relabellings(6, 0)[0]))
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
        r = matrix_correlations(x, y, ways)
        ordinary.append(stats.pearsonr(x, y).pvalue)
        mantel.append(mantel_p(r))
    assert np.mean(np.array(ordinary) <= 0.05) > 0.1
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        error = (level * (1 - level) / studies) ** 0.5
        assert np.mean(np.array(mantel) <= level) == pytest.approx(level, abs=4.5 * error)


def test_pairs_use_means_over_subjects_and_tasks_of_the_method():
    x, y = RNG.normal(size=(2, 3))
    pairs = paired(*study({("m", "cnm"): x}, {"m": y}, 3), paradigms(3), "frozen")
    assert pairs["mixture"].tolist() == ["t0+t1", "t0+t2", "t1+t2"]
    assert pairs["same_paradigm"].tolist() == [False, True, False]
    np.testing.assert_allclose(pairs["similarity"], x)
    np.testing.assert_allclose(pairs["dissociation"], y - 0.1)


def test_a_task_that_a_model_has_not_learnt_is_in_no_correlation():
    """The last of five tasks, in one of its pairs: what is left is a study of the other four."""
    x, y = RNG.normal(size=(2, 2, 10))
    alike = {(model, "rsa"): values for model, values in zip("ab", x, strict=True)}
    similarity, combined = study(alike, dict(zip("ab", y, strict=True)), 5)
    one = combined["model"].eq("a") & combined["mixture"].eq("t1+t4") & combined["method"].eq("tuned")
    combined = pd.concat([combined, combined[one].head(1).assign(task="t4")]).assign(unpruned_at_chance=False)
    combined.loc[combined["task"].eq("t4"), "unpruned_at_chance"] = True
    combined.loc[combined["method"].eq("frozen"), "unpruned_at_chance"] = True  # of another method
    pairs = paired(similarity, combined, paradigms(5), "tuned")
    left = pairs.loc[pairs["left_out"], ["model", "mixture"]]
    assert set(left["mixture"]) == {f"t{i}+t4" for i in range(4)} and set(left["model"]) == {"a"}
    found = correlation(pairs, 0).set_index("model")
    learnt = [i for i, pair in enumerate(pairs_of(5)) if "t4" not in pair]
    four = correlated(
        {key: values[learnt] for key, values in alike.items()},
        {model: values[learnt] for model, values in zip("ab", y, strict=True)},
        4,
    ).reset_index("measure", drop=True)
    for model in ("a", POOLED):
        pd.testing.assert_series_equal(found.loc[model].drop("measure"), four.loc[model], check_names=False)
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


def test_partial_correlation_is_null_if_the_paradigm_is_constant_or_explains_everything():
    x, y = RNG.normal(size=(2, 10))
    held, partials = same_paradigm(5), ["partial_r", "p_partial"]
    table = correlated({("m", "paradigm"): held, ("m", "rsa"): x}, {"m": y}, 5).loc["m"]
    assert table.loc["paradigm", partials].isna().all() and table.loc["rsa", partials].notna().all()
    assert table.loc["paradigm", ["pearson_r", "p_mantel"]].notna().all()
    explained = correlated({("m", "rsa"): x}, {"m": 0.3 - 0.2 * held}, 5).loc["m", "rsa"]
    assert explained[partials].isna().all() and explained["pearson_r"] < 1
    assert np.isnan(partial_correlations(x, y, np.ones(10), relabellings(5, 0)[0])).all()


@pytest.mark.parametrize("n", [3, 4, 10])
def test_partial_correlation_is_that_of_three_correlations(n):
    """And after relabelling, that of the relabelled residuals; with three pairs nothing is left to vary."""
    x, y, held = np.random.default_rng(n).normal(size=(3, n)) + 1
    order = np.roll(np.arange(n), 1)
    found = partial_correlations(x, y, held, np.stack([np.arange(n), order]))
    residuals = x - np.polyval(np.polyfit(held, x, 1), held)

    def partial(values):
        r = np.corrcoef([values, y, held])
        return (r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))

    expected = [np.nan, np.nan] if n == 3 else [partial(x), partial(residuals[order])]
    np.testing.assert_allclose(found, expected)
