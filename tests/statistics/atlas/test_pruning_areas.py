"""Areas under pruning curves: closed forms, coverage of intervals, level of tests, dissociation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.statistics.atlas.pruning_areas import SCHEMAS, pruning_curves, ranking_dissociation
from headspec.statistics.atlas.pruning_curves import area_weights
from headspec.statistics.dissociation.resampled import Evaluation
from headspec.statistics.dissociation.scores import scores
from headspec.statistics.resampling import holm
from headspec.tasks.metrics import score
from support.data.evaluations import evaluated

FRACTIONS = (0.0, 0.3, 1.0)
WEIGHTS = np.array([0.15, 0.5, 0.35])


def evaluation(right: dict[tuple, np.ndarray], tasks=("a",), seed: int = 0) -> Evaluation:
    """Predictions that are right or wrong; (ranking, pruned_for, draw, task, fraction): (n,) bool."""
    one = evaluated(["ranking", "pruned_for", "draw", "task", "fraction"], right, tasks=tasks, seed=seed)
    ranked = one.predictions["draw"].isna()
    return replace(one, stored=one.predictions.assign(order=np.where(ranked, "top", None)))


def curve(ranking: str, levels, u: np.ndarray, pruned_for: str | None = "a", draw=None, task="a") -> dict:
    """An example is right at each fraction if its difficulty `u` (n,) is below the level."""
    return {
        (ranking, pruned_for, draw, task, fraction): u < level
        for fraction, level in zip(FRACTIONS, levels, strict=True)
    }


def areas(evaluations: list[Evaluation], resamples: int = 400, confidence: float = 0.95) -> pd.DataFrame:
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
    expected = {name: WEIGHTS @ levels for name, levels in
                {"importance": (0.9, 0.5, 0.5), "confidence": (0.9, 0.8, 0.5),
                 "random": (0.9, 0.7, 0.5)}.items()}  # fmt: skip
    for ranking, area in expected.items():
        row = one(table, ranking)
        assert row["value"] == pytest.approx(area) and row["ci_low"] < area < row["ci_high"]
        assert row["ci_over"] == ("examples and orders" if ranking == "random" else "examples")
        assert np.isnan(row["p_value"]) and row["metric"] == "accuracy"
        assert one(table, ranking, task="mean")["value"] == pytest.approx(area)
    for ranking, against in [
        ("importance", "random"),
        ("confidence", "random"),
        ("confidence", "importance"),
    ]:
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


LEVELS = {"importance": (0.85, 0.6, 0.5), "confidence": (0.85, 0.7, 0.5), "random": (0.85, 0.75, 0.5)}
DRAWS, SPREAD = 10, 0.05


def test_the_metric_is_that_of_the_task():
    """Spearman of regression, against the definition."""
    rng = np.random.default_rng(0)
    label, noise = rng.normal(size=60), rng.normal(size=60)
    frames = [
        pd.DataFrame({"ranking": "importance", "pruned_for": "a", "fraction": fraction, "draw": None,
                      "order": "top", "task": "a", "example": np.arange(60), "label": label,
                      "prediction": label * (1 - fraction) + noise})
        for fraction in FRACTIONS
    ]  # fmt: skip
    run = Run(model="m", mixture="a", method="tuned", seed=0, tasks=("a",))
    frame = pd.concat(frames).astype({"draw": "Int32"})
    row = one(areas([Evaluation(run, {"a": "spearman"}, frame)]), "importance")
    expected = WEIGHTS @ [score("spearman", label, label * (1 - f) + noise) for f in FRACTIONS]
    assert row["value"] == pytest.approx(expected)


def simulated(rng: np.random.Generator, levels: dict, seeds: int = 1, n: int = 120) -> list[Evaluation]:
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


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_cover_the_true_areas_and_differences(seeds):
    rng, runs = np.random.default_rng(7), 90 if seeds == 1 else 60
    pairs = [("importance", None), ("random", None), ("importance", "random"), ("confidence", "importance")]
    covered = dict.fromkeys(pairs, 0)
    found: dict[tuple, list] = {pair: [] for pair in pairs}
    true = {name: WEIGHTS @ levels for name, levels in LEVELS.items()}
    for _ in range(runs):
        table = areas(simulated(rng, LEVELS, seeds), resamples=200, confidence=0.9)
        for ranking, against in pairs:
            row, value = one(table, ranking, against), true[ranking] - (true[against] if against else 0)
            covered[ranking, against] += row["ci_low"] <= value <= row["ci_high"]
            found[ranking, against].append((row["value"], row["ci_high"] - row["ci_low"]))
    low, high = stats.binom.ppf([0.002, 0.998], runs, [0.88, 0.92])  # nominal 0.9, with some tolerance
    assert all(low <= count <= (high if seeds == 1 else runs) for count in covered.values()), covered
    for pair, rows in found.items():
        values, widths = np.transpose(rows)
        wide = widths.mean() / (2 * 1.645 * values.std())  # of a normal distribution; that of t is wider
        assert 0.8 < wide < (1.3 if seeds == 1 else 1.7), (pair, wide)


@pytest.mark.slow
def test_tests_keep_their_level_under_the_null():
    """Against random orders too, although these differ from each other more than examples would."""
    rng, runs, null = np.random.default_rng(3), 150, dict.fromkeys(LEVELS, (0.85, 0.7, 0.5))
    tables = [areas(simulated(rng, null), 199) for _ in range(runs)]
    low, high = stats.binom.ppf([0.001, 0.999], runs, [0.08, 0.12])
    for against in ("importance", "random"):
        rejected = sum(one(table, "confidence", against)["p_value"] <= 0.1 for table in tables)
        assert low <= rejected <= high, (against, rejected)


def test_a_test_finds_a_difference():
    table = areas(simulated(np.random.default_rng(0), LEVELS, seeds=2, n=600), 999)
    assert one(table, "importance", "random")["p_value"] < 0.01
    assert one(table, "confidence", "importance")["p_value"] < 0.01


def test_resamples_depend_on_the_seed():
    runs = simulated(np.random.default_rng(1), LEVELS, seeds=1)
    first, again, other = (pruning_curves(runs, 99, 0.95, seed)["pruning_areas"] for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first["ci_low"].equals(other["ci_low"]) and not first["p_value"].equals(other["p_value"])


def test_a_copy_of_a_seed_adds_nothing_to_the_test():
    rng = np.random.default_rng(1)
    (run,) = simulated(rng, LEVELS)
    alone = one(areas([run]), "confidence", "importance")
    twice = one(areas([run, Evaluation(run.run, run.metrics, run.predictions)]), "confidence", "importance")
    assert alone["p_value"] == twice["p_value"] and alone["value"] == pytest.approx(twice["value"])
    assert twice["n_seeds"] == 2


def test_the_mean_over_tasks_and_no_baselines():
    u = np.random.default_rng(0).random(80)
    right = curve("gradient", (0.9, 0.6, 0.5), u) | curve("gradient", (0.8, 0.4, 0.3), u, "b", task="b")
    table = areas([evaluation(right, ("a", "b"))])
    by_task = [one(table, "gradient", task=task)["value"] for task in "ab"]
    assert one(table, "gradient", task="mean")["value"] == pytest.approx(np.mean(by_task))
    assert len(table) == 3 and table["p_holm"].isna().all()


def test_each_order_is_analysed_as_if_it_were_alone():
    """Bottom heads are compared with random orders and with importance from the bottom; top heads as ever."""
    top_alone = simulated(np.random.default_rng(2), LEVELS, seeds=2)
    bottom_alone, both = [], []
    for run, other in zip(top_alone, simulated(np.random.default_rng(5), LEVELS, seeds=2), strict=True):
        ranked = other.predictions[other.predictions["order"] == "top"]
        orders = run.predictions[run.predictions["order"].isna()]
        bottom_alone.append(replace(run, stored=pd.concat([ranked, orders])))
        both.append(replace(run, stored=pd.concat([ranked.assign(order="bottom"), run.predictions])))
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
    right = curve("importance", (0.9, 0.6, 0.5), u) | curve("confidence", (0.9, 0.6, 0.5), u)
    del right["confidence", "a", None, "a", 0.3]
    with pytest.raises(DataError, match="lacks predictions with ranking 'confidence', draw 0, fraction 0.3$"):
        areas([evaluation(right)])
    full, other = curve("importance", (0.9, 0.6, 0.5), u), curve("importance", (0.9, 0.6, 0.5), u[:40])
    with pytest.raises(DataError, match="seed1/cumulative.parquet: examples differ from those of .*seed0"):
        areas([evaluation(full), evaluation(other, seed=1)])
    with pytest.raises(DataError, match="rankings differ"):
        areas([evaluation(full), evaluation(full | curve("confidence", (0.9, 0.6, 0.5), u), seed=1)])


def test_dissociation_of_a_ranking_is_equation_7():
    u = (np.arange(100) + 0.5) / 100
    right = {}
    matrix = {"importance": {("a", "a"): 0.5, ("a", "b"): 0.8, ("b", "a"): 0.7, ("b", "b"): 0.6},
              "confidence": dict.fromkeys([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")], 0.7)}  # fmt: skip
    for ranking, metrics in matrix.items():
        for (pruned_for, task), level in metrics.items():
            right[ranking, pruned_for, None, task, 0.0] = u < 0.9
            right[ranking, pruned_for, None, task, 0.3] = u < level
            if pruned_for == task:
                right[ranking, pruned_for, None, task, 1.0] = u < 0.5
    for task in "ab":
        right["random", None, 0, task, 0.0] = right["random", None, 0, task, 0.3] = u < 0.9
    runs = [evaluation(right, ("a", "b"), seed) for seed in (0, 1)]
    table = ranking_dissociation(runs, 0.3, 200, 0.95, 0.1, seed=0)
    assert set(table["ranking"]) == set(matrix) and set(table["n_seeds"]) == {2}
    expected = scores([[0.5, 0.8], [0.7, 0.6]], [0.9, 0.9])
    found = table[table["ranking"] == "importance"].set_index("task")["dissociation"]
    np.testing.assert_allclose(found[["a", "b"]], expected)
    same = table[table["ranking"] == "confidence"]
    assert (same["dissociation"] == 0).all() and (same["p_value"] == 1).all()
    assert list(table.columns) == list(SCHEMAS["ranking_dissociation"].columns)
