"""Numbers of heads that are kept: by run, by layer, and by kind of attention."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from headspec import tables
from headspec.config.runs import PrunedRun, Run
from headspec.statistics.budgets import counts
from headspec.statistics.kept_heads import KEPT_KINDS, KEPT_LAYERS, gates_table, kept_kinds, kept_layers
from support.data.elements import elements

KINDS = {"encoder": 3, "decoder": 2, "cross": 2}
SET = {
    "mixture": "a", "method": "single", "scope": "shared", "way": "l0", "fraction": None, "penalty": 0.1,
    "task": None, "step": 9,
}  # fmt: skip


# --- of runs


def gates(opened: float, task: str | None = None, fixed: int = 0) -> pd.DataFrame:
    """Of 40 heads ten are kept, beside `fixed` ones that never learn; `opened` of the others are open."""
    head = np.arange(40 + fixed)
    last = pd.DataFrame({"task": task, "step": 9, "layer": 0, "head": head, "kept": head < 10 + fixed})
    last["open_probability"] = np.where(head < fixed, 1, opened / 40)
    last["score"] = np.where(head < fixed, np.nan, 0.0)
    return pd.concat([last.assign(step=3, kept=True, open_probability=1.0), last], ignore_index=True)


@pytest.mark.parametrize(("opened", "missed"), [(8.1, 0), (11.9, 0), (7.9, 1), (12.1, 1), (38.0, 1)])
@pytest.mark.parametrize("fixed", [0, 100])
def test_a_target_is_missed_by_more_than_a_twentieth_of_the_heads_that_learn(opened, missed, fixed):
    assert counts(gates(opened, fixed=fixed)) == pytest.approx((10 + fixed, opened + fixed, missed))


def test_sets_of_tasks_miss_targets_apart_and_gates_without_a_number_in_view_none():
    of_sets = pd.concat([gates(10.0, "a"), gates(30.0, "b")])
    assert counts(of_sets) == pytest.approx((10, 20, 0.5))
    nothing = pytest.approx((10, np.nan, np.nan), nan_ok=True)
    assert counts(of_sets, open_ended=True) == nothing
    assert counts(of_sets.assign(open_probability=np.nan)) == nothing


# --- by layer


def test_numbers_by_layer_are_those_of_the_last_step_over_seeds(tmp_path):
    frame = elements("layer", "head", gate=np.ones((4, 3))).assign(task=None, open_probability=1.0)
    cells = {}
    for seed in range(2):
        run = Run("m", "a", ("a",), "single", seed)
        for penalty, more in ((None, 0), (0.5, 1)):
            # layer 0 keeps one head, of seed 1 two; the others two, at the larger penalty one
            last = frame["head"] < np.where(frame["layer"] == 0, 1 + seed, 2 - more)
            steps = [frame.assign(step=0, kept=True), frame.assign(step=9, kept=last)]
            cells[PrunedRun(run, "l0", "shared", None, penalty)] = pd.concat(steps)
    found = kept_layers(gates_table(cells))
    kinds = {"encoder": 2, "decoder": 1, "cross": 1}
    tables.write(tmp_path / "layers.parquet", KEPT_LAYERS, found, {"attention": {"m": kinds}})
    stored = pq.read_table(tmp_path / "layers.parquet").to_pandas()
    columns = ["attention", "layer", "n_seeds", "kept", "kept_least", "kept_most"]
    for penalty, n in ((None, 2), (0.5, 1)):
        rows = stored[stored["penalty"].isna() if penalty is None else stored["penalty"] == penalty]
        assert set(rows[columns].itertuples(index=False, name=None)) == {
            ("encoder", 0, 2, 1.5, 1, 2), ("encoder", 1, 2, n, n, n),
            ("decoder", 0, 2, n, n, n), ("cross", 0, 2, n, n, n),
        }  # fmt: skip
    assert PrunedRun(run, "l0", "shared", None, 0.5).path.endswith("gates/l0/shared/open-0.5")


# --- by kind


def frame(kept: np.ndarray, model: str = "m") -> pd.DataFrame:
    """Table 'gates' of sets `kept` (seeds, layers, heads)."""
    return elements("seed", "layer", "head", kept=kept).assign(model=model, **SET)


def sets(*counts: list[int]) -> np.ndarray:
    """Heads of 4 that are kept: the first of each layer, as many as said, in every seed."""
    return np.arange(4) < np.array(counts)[..., None]


def rows(table: pd.DataFrame) -> dict[tuple[str, str | None], pd.Series]:
    others = table["against"].replace({np.nan: None})
    return {(row["kind"], other): row for (_, row), other in zip(table.iterrows(), others, strict=True)}


def test_shares_depths_and_differences_are_those_of_seeds():
    kept = sets([0, 1, 3, 4, 0, 4, 4], [0, 0, 3, 2, 2, 4, 4], [1, 1, 1, 3, 0, 4, 4])
    before = frame(~kept).assign(step=0)  # of an earlier step: left out
    found = rows(kept_kinds(pd.concat([before, frame(kept)]), {"m": KINDS}, [], 0.9))
    assert list(found) == [
        ("encoder", None), ("decoder", None), ("cross", None),
        ("decoder", "encoder"), ("cross", "encoder"), ("cross", "decoder"),
    ]  # fmt: skip
    share = np.array([[4, 3, 3], [4, 4, 3], [8, 8, 8]]) / np.array([[12], [8], [8]])
    depth = np.array([[0.75, 1, 0], [-0.5, 0, -0.5], [0, 0, 0]])
    for (kind, other), row in found.items():
        assert row["heads"] == pytest.approx((16 + 15 + 14) / 3)
        at = list(KINDS).index
        for values, name in ((share, "share"), (depth, "depth")):
            of_seeds = values[at(kind)] - (values[at(other)] if other else 0)
            bounds = np.nan, np.nan
            if of_seeds.std() > 0:
                bounds = stats.t.interval(0.9, 2, of_seeds.mean(), stats.sem(of_seeds))
            columns = [name, f"{name}_low", f"{name}_high"]
            assert row[columns].tolist() == pytest.approx([of_seeds.mean(), *bounds], nan_ok=True)


def test_kinds_that_cannot_close_are_left_out_and_other_models_have_one_kind():
    kept = sets([0, 1, 3, 4, 4, 4, 4], [0, 0, 3, 4, 4, 4, 4], [1, 1, 1, 4, 4, 4, 4])
    assert list(rows(kept_kinds(frame(kept), {"m": KINDS}, ["encoder"], 0.9))) == [("encoder", None)]
    found = rows(kept_kinds(frame(sets([0, 2], [0, 0])), {"other": KINDS}, ["encoder"], 0.9))["self", None]
    assert found["share"] == 1 / 8
    assert np.isnan(found["depth"])  # a seed keeps no head
    assert np.isnan(found["share_low"])  # two seeds


def test_shares_of_ragged_layers_are_of_the_heads_that_exist():
    """Layers of 4, no and 2 heads, of which 1 and 2 are kept: the mean layer of all is 4/6, of these 4/3."""
    kept = sets([1, 0, 2], [1, 0, 2])
    table, exists = frame(kept), np.arange(4) < np.array([4, 0, 2])[:, None]
    found = rows(kept_kinds(table[exists[table["layer"], table["head"]]], {}, [], 0.9))["self", None]
    assert (found["heads"], found["share"]) == (3, 0.5) and found["depth"] == pytest.approx(4 / 3 - 4 / 6)


def test_a_kind_closed_in_a_seed_has_no_depth_and_still_a_share():
    found = rows(kept_kinds(frame(sets([0, 2], [0, 0], [1, 0])), {}, [], 0.9))["self", None]
    assert found["share"] == pytest.approx(3 / 24)
    assert found["share_low"] < found["share"] < found["share_high"]
    assert np.isnan(found["depth"]) and np.isnan(found["depth_low"])


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.thorough
def test_intervals_cover_the_mean_over_seeds(seeds):
    """Of 500 studies, whose shares vary between seeds by more than the drawing of their heads."""
    rng, truth = np.random.default_rng(0), {"encoder": 0.4, "cross": 0.6}
    frames, models = [], {f"m{i}": {"encoder": 6, "cross": 6} for i in range(500)}
    for model in models:
        share = [rng.beta(5 * p, 5 * (1 - p), size=(seeds, 1, 1)) for p in truth.values()]
        kept = np.concatenate([rng.random((seeds, 6, 8)) < p for p in share], axis=1)
        frames.append(frame(kept, model))
    table = kept_kinds(pd.concat(frames), models, [], 0.95)
    assert list(table.columns) == list(KEPT_KINDS.columns)
    alone = table["against"].isna()
    for of, expected in ((table[alone & table["kind"].eq("encoder")], 0.4), (table[~alone], 0.2)):
        assert len(of) == 500
        assert 0.9 < ((of["share_low"] <= expected) & (expected <= of["share_high"])).mean() < 0.98
        assert 0.88 < ((of["depth_low"] <= 0) & (of["depth_high"] >= 0)).mean() < 0.98
