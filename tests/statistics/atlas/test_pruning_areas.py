"""Areas under pruning curves: closed forms, coverage of intervals, level of tests, dissociation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headspec.errors import DataError
from headspec.statistics.atlas.pruning_curves import area_weights
from headspec.statistics.atlas.rankings import SCHEMAS, pruning_curves, ranking_dissociation
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.dissociation.scores import dissociation
from headspec.statistics.resampling import holm
from headspec.tasks.metrics import score
from support.data.evaluations import evaluated

FRACTIONS = (0.0, 0.3, 1.0)
WEIGHTS = np.array([0.15, 0.5, 0.35])
LEVELS = {"importance": (0.85, 0.6, 0.5), "confidence": (0.85, 0.7, 0.5), "random": (0.85, 0.75, 0.5)}
DRAWS, SPREAD = 10, 0.05


def evaluation(predictions: dict[tuple, np.ndarray], *more, seed: int = 0) -> PrunedPredictions:
    """A run from {(ranking, pruned_for, draw, task, fraction): predictions (n,)}, right if they are 1."""
    columns = ["ranking", "pruned_for", "draw", "task", "fraction"]
    one = evaluated(columns, predictions, *more, seed=seed)
    ranked = one.read()["draw"].isna()
    return replace(one, stored=one.read().assign(order=np.where(ranked, "top", None)))


def curve(ranking: str, levels, u: np.ndarray, pruned_for: str | None = "a", draw=None, task="a") -> dict:
    """An example is right at each fraction if its difficulty `u` (n,) is below the level."""
    return {
        (ranking, pruned_for, draw, task, fraction): u < level
        for fraction, level in zip(FRACTIONS, levels, strict=True)
    }


def areas(
    evaluations: list[PrunedPredictions], resamples: int = 400, confidence: float = 0.95
) -> pd.DataFrame:
    return pruning_curves(evaluations, resamples, confidence, seed=0)["pruning_areas"]


def one(table: pd.DataFrame, ranking: str, against: str | None = None, task: str = "a") -> pd.Series:
    chosen = table[(table["ranking"] == ranking) & (table["task"] == task)]
    chosen = chosen[chosen["against"].isna() if against is None else chosen["against"] == against]
    assert len(chosen) == 1
    return chosen.iloc[0]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8, unique=True))
def test_areas_are_exact_for_lines(fractions):
    fractions = sorted(fractions)
    if min(np.diff(fractions)) < 1e-6:
        return
    weights = area_weights(fractions)
    assert weights.sum() == pytest.approx(1)
    assert weights @ fractions == pytest.approx((fractions[0] + fractions[-1]) / 2)


def test_areas_and_differences_in_closed_form():
    u = (np.arange(100) + 0.5) / 100
    right = curve("importance", (0.9, 0.5, 0.5), u) | curve("confidence", (0.9, 0.8, 0.5), u)
    right |= curve("random", (0.9, 0.6, 0.5), u, None, 0) | curve("random", (0.9, 0.8, 0.5), u, None, 1)
    tables = pruning_curves([evaluation(right)], 400, 0.95, seed=0)
    table = tables["pruning_areas"]
    middle = {"importance": 0.5, "confidence": 0.8, "random": 0.7}
    expected = {name: WEIGHTS @ (0.9, level, 0.5) for name, level in middle.items()}
    for ranking, area in expected.items():
        row = one(table, ranking)
        assert row["value"] == pytest.approx(area) and row["ci_low"] < area < row["ci_high"]
        assert row["ci_over"] == ("examples and orders" if ranking == "random" else "examples")
        assert np.isnan(row["p_value"]) and row["metric"] == "accuracy"
        assert one(table, ranking, task="mean")["value"] == pytest.approx(area)
    pairs = [("importance", "random"), ("confidence", "random"), ("confidence", "importance")]
    for ranking, against in pairs:
        row = one(table, ranking, against)
        assert row["value"] == pytest.approx(expected[ranking] - expected[against])
        assert row["ci_low"] <= row["value"] <= row["ci_high"] and 0 < row["p_value"] <= row["p_holm"] <= 1
    assert one(table, "confidence", "importance")["p_value"] == pytest.approx(1 / 401)
    assert len(table) == 2 * (3 + 3)
    curves = tables["pruning_curves"].set_index(["ranking", "fraction"])
    assert len(curves) == 9 and curves.loc[("confidence", 0.3), "value"] == pytest.approx(0.8)
    band = curves.loc[("random", 0.3), ["draws_low", "draws_high"]].astype(float)
    np.testing.assert_allclose(band, [0.6, 0.8])
    assert curves.loc["importance", "draws_low"].isna().all()
    for name, frame in tables.items():
        assert list(frame.columns) == list(SCHEMAS[name].columns)


def test_rankings_are_compared_with_random_heads_of_the_same_layers():
    u = (np.arange(100) + 0.5) / 100
    right = curve("importance", (0.9, 0.5, 0.5), u) | curve("random", (0.9, 0.8, 0.5), u, None, 0)
    right |= curve("random", (0.9, 0.8, 0.5), u, None, 1)
    plain = pruning_curves([evaluation(right)], 100, 0.95, seed=0)
    run = evaluation(right)
    same = evaluation(
        curve("importance", (0.9, 0.6, 0.5), u, "a", 0) | curve("importance", (0.9, 0.56, 0.5), u, "a", 1)
    )
    stored = pd.concat([run.read(), same.read().assign(order="same_layers")], ignore_index=True)
    tables = pruning_curves([replace(run, stored=stored)], 100, 0.95, seed=0)
    row = one(tables["pruning_areas"], "importance", "same_layers")
    assert row["value"] == pytest.approx(WEIGHTS[1] * (0.5 - 0.58)) and row["p_value"] > 0.01
    assert row["ci_over"] == "examples and orders" and row["ci_low"] < row["value"] < row["ci_high"]
    others = tables["pruning_areas"].query("against != 'same_layers'").reset_index(drop=True)
    unchanged = plain["pruning_areas"].drop(columns=["p_holm", "p_seeds_holm"])
    pd.testing.assert_frame_equal(others[unchanged.columns], unchanged)
    curves = tables["pruning_curves"].set_index(["ranking", "order", "fraction"])
    drawn = curves.loc[("importance", "same_layers", 0.3), ["value", "draws_low", "draws_high"]].astype(float)
    np.testing.assert_allclose(drawn, [0.58, 0.56, 0.6])
    assert {*curves.index.get_level_values("ranking")} == {"importance", "random"}


def test_the_metric_is_that_of_the_task():
    """Spearman of regression, against the definition."""
    label, noise = np.random.default_rng(0).normal(size=(2, 60))
    predictions = {("importance", "a", None, "a", f): label * (1 - f) + noise for f in FRACTIONS}
    row = one(areas([evaluation(predictions, label, "spearman")]), "importance")
    expected = WEIGHTS @ [score("spearman", label, values) for values in predictions.values()]
    assert row["value"] == pytest.approx(expected)


def simulated(
    rng: np.random.Generator, levels: dict, seeds: int = 1, n: int = 120
) -> list[PrunedPredictions]:
    """Runs whose areas are known: orders differ from `random` by chance, seeds share some difficulty."""
    evaluations, shared = [], rng.random(n)
    for seed in range(seeds):
        own = rng.random(n)
        u = np.where(rng.random(n) < 0.5, shared, own)
        right = curve("importance", levels["importance"], u)
        # another ranking is right on partly the same examples
        right |= curve("confidence", levels["confidence"], np.where(rng.random(n) < 0.7, u, rng.random(n)))
        for draw in range(DRAWS):
            start, middle, end = levels["random"]
            drawn = (start, middle + rng.normal(0, SPREAD), end)
            mixed = np.where(rng.random(n) < 0.7, u, rng.random(n))
            right |= curve("random", drawn, mixed, None, draw)
        evaluations.append(evaluation(right, seed=seed))
    return evaluations


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_cover_the_true_areas_and_differences(seeds):
    """Those against `random` cover the difference from one more random order."""
    rng, more, runs = np.random.default_rng(7), np.random.default_rng(8), 90 if seeds == 1 else 60
    pairs = [("importance", None), ("random", None), ("importance", "random"), ("confidence", "importance")]
    covered = dict.fromkeys(pairs, 0)
    found: dict[tuple, list] = {pair: [] for pair in pairs}
    true = {name: WEIGHTS @ levels for name, levels in LEVELS.items()}
    for _ in range(runs):
        table = areas(simulated(rng, LEVELS, seeds), resamples=200, confidence=0.9)
        for ranking, against in pairs:
            row, value = one(table, ranking, against), true[ranking] - (true[against] if against else 0)
            value -= WEIGHTS[1] * more.normal(0, SPREAD) if against == "random" else 0
            covered[ranking, against] += row["ci_low"] <= value <= row["ci_high"]
            found[ranking, against].append((row["value"] - value, row["ci_high"] - row["ci_low"]))
    low, high = stats.binom.ppf([0.002, 0.998], runs, [0.88, 0.92])  # nominal 0.9, with some tolerance
    assert all(low <= count <= (high if seeds == 1 else runs) for count in covered.values()), covered
    for pair, rows in found.items():
        errors, widths = np.transpose(rows)
        wide = widths.mean() / (2 * 1.645 * errors.std())  # of a normal distribution; that of t is wider
        assert 0.8 < wide < (1.3 if seeds == 1 else 1.7), (pair, wide)


@pytest.mark.thorough
def test_tests_keep_their_level_under_the_null():
    """Against random orders too, although these differ from each other more than examples would."""
    rng, runs, null = np.random.default_rng(3), 150, dict.fromkeys(LEVELS, (0.85, 0.7, 0.5))
    tables = [areas(simulated(rng, null), 199) for _ in range(runs)]
    low, high = stats.binom.ppf([0.001, 0.999], runs, [0.08, 0.12])
    for against in ("importance", "random"):
        rejected = sum(one(table, "confidence", against)["p_value"] <= 0.1 for table in tables)
        # this ranking is as good as the mean of all orders, which one more order is not
        assert (low if against == "importance" else 0) <= rejected <= high, (against, rejected)


def test_a_test_finds_a_difference():
    table = areas(simulated(np.random.default_rng(0), LEVELS, seeds=2, n=600), 999)
    assert one(table, "importance", "random")["p_value"] < 0.01
    assert one(table, "confidence", "importance")["p_value"] < 0.01


def test_resamples_depend_on_the_seed_and_a_copy_of_a_run_adds_nothing_to_the_test():
    (run,) = simulated(np.random.default_rng(1), LEVELS)
    first, other = (pruning_curves([run], 99, 0.95, seed)["pruning_areas"] for seed in (1, 2))
    assert first.equals(pruning_curves([run], 99, 0.95, 1)["pruning_areas"])
    assert not first["ci_low"].equals(other["ci_low"]) and not first["p_value"].equals(other["p_value"])
    alone, twice = (one(areas(runs), "confidence", "importance") for runs in ([run], [run, run]))
    assert alone["p_value"] == twice["p_value"] and alone["value"] == pytest.approx(twice["value"])
    assert twice["n_seeds"] == 2


def test_the_mean_over_tasks_and_no_baselines():
    u = np.random.default_rng(0).random(80)
    right = curve("gradient", (0.9, 0.6, 0.5), u) | curve("gradient", (0.8, 0.4, 0.3), u, "b", task="b")
    table = areas([evaluation(right)])
    by_task = [one(table, "gradient", task=task)["value"] for task in "ab"]
    assert one(table, "gradient", task="mean")["value"] == pytest.approx(np.mean(by_task))
    assert len(table) == 3 and table["p_holm"].isna().all()


def test_each_order_is_analysed_as_if_it_were_alone():
    """Bottom heads are compared with random orders and with importance from the bottom; top heads as ever."""
    top_alone = simulated(np.random.default_rng(2), LEVELS, seeds=2)
    bottom_alone, both = [], []
    for run, other in zip(top_alone, simulated(np.random.default_rng(5), LEVELS, seeds=2), strict=True):
        ranked = other.read()[other.read()["order"] == "top"]
        orders = run.read()[run.read()["order"].isna()]
        bottom_alone.append(replace(run, stored=pd.concat([ranked, orders])))
        both.append(replace(run, stored=pd.concat([ranked.assign(order="bottom"), run.read()])))
    table = areas(both)
    top, bottom = (table[table["order"] == order].reset_index(drop=True) for order in ("top", "bottom"))
    pd.testing.assert_frame_equal(top, areas(top_alone))
    pd.testing.assert_frame_equal(bottom.assign(order="top"), areas(bottom_alone))
    assert one(top, "importance", "random")["value"] != one(bottom, "importance", "random")["value"]
    compared = table.dropna(subset="against")
    families = compared.groupby(["order", "against", compared["task"] == "mean"])
    assert len(families) > 2
    for _, family in families:
        np.testing.assert_allclose(family["p_holm"], holm(family["p_value"].to_numpy()))


def test_what_is_incomplete_is_refused():
    u = np.random.default_rng(0).random(50)
    full, other = (curve(ranking, (0.9, 0.6, 0.5), u) for ranking in ("importance", "confidence"))
    fewer = {key: values[:40] for key, values in full.items()}
    lacking = {key: values for key, values in other.items() if key[-1] != 0.3}
    for message, runs in {
        "lacks predictions with ranking 'confidence', draw 0, fraction 0.3$": [full | lacking],
        "seed1/cumulative.parquet: examples differ from those of .*seed0": [full, fewer],
        "rankings differ": [full, full | other],
    }.items():
        with pytest.raises(DataError, match=message):
            areas([evaluation(right, seed=seed) for seed, right in enumerate(runs)])


def test_dissociation_of_a_ranking_is_equation_7():
    """By several rankings, of which each counts apart; p is corrected over rankings, apart for the mean."""
    u, right = (np.arange(100) + 0.5) / 100, {}
    matrix = {"importance": [[0.5, 0.8], [0.7, 0.6]], "confidence": [[0.7, 0.7], [0.7, 0.7]]}
    for ranking, levels in matrix.items():
        for pruned_for, metrics in zip("ab", levels, strict=True):
            for task, level in zip("ab", metrics, strict=True):
                right |= curve(ranking, (0.9, level, 0.5), u, pruned_for, task=task)
    for task in "ab":
        right |= curve("random", (0.9, 0.9, 0.9), u, None, 0, task)
    runs = [evaluation(right, seed=seed) for seed in (0, 1)]
    table = ranking_dissociation(runs, 0.3, 200, 0.95, 0.1, seed=0)
    assert set(table["ranking"]) == set(matrix) and set(table["n_seeds"]) == {2}
    expected = dissociation(matrix["importance"], [0.9, 0.9])
    found = table[table["ranking"] == "importance"].set_index("task")["dissociation"]
    np.testing.assert_allclose(found[["a", "b"]], expected)
    same = table[table["ranking"] == "confidence"]
    assert (same["dissociation"] == 0).all() and (same["p_value"] == 1).all()
    assert list(table.columns) == list(SCHEMAS["ranking_dissociation"].columns)
    for _, family in table.groupby(table["task"] == "mean"):
        np.testing.assert_allclose(family["p_holm"], holm(family["p_value"]))
    only = [replace(run, stored=run.read().query("ranking == 'random'")) for run in runs]
    none = ranking_dissociation(only, 0.3, 200, 0.95, 0.1, seed=0)
    assert none.empty and list(none) == list(table)
