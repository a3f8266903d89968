"""Kinds of attention that are kept, and their layers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec.statistics.gates.kept import KEPT_KINDS, kept_kinds

KINDS = {"encoder": 3, "decoder": 2, "cross": 2}
SET = {
    "mixture": "a", "method": "single", "scope": "shared", "way": "l0", "fraction": None, "penalty": 0.1,
    "task": None, "step": 9,
}  # fmt: skip


def frame(kept: np.ndarray, model: str = "m") -> pd.DataFrame:
    """Table 'gates' of sets `kept` (seeds, layers, heads)."""
    seed, layer, head = (index.ravel() for index in np.indices(kept.shape))
    columns = {"seed": seed, "layer": layer, "head": head, "kept": kept.ravel()}
    return pd.DataFrame(columns).assign(model=model, **SET)


def test_shares_of_ragged_layers_are_of_the_heads_that_exist():
    """Layers of 4, no and 2 heads, of which 1 and 2 are kept: the mean layer of all is 4/6, of these 4/3."""
    kept = sets([1, 0, 2], [1, 0, 2])
    table, exists = frame(kept), np.arange(4) < np.array([4, 0, 2])[:, None]
    found = rows(kept_kinds(table[exists[table["layer"], table["head"]]], {}, [], 0.9))["self", None]
    assert (found["heads"], found["share"]) == (3, 0.5) and found["depth"] == pytest.approx(4 / 3 - 4 / 6)


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
            assert row[name] == pytest.approx(of_seeds.mean())
            bounds = np.nan, np.nan
            if of_seeds.std() > 0:
                bounds = stats.t.interval(0.9, 2, of_seeds.mean(), stats.sem(of_seeds))
            assert [row[f"{name}_low"], row[f"{name}_high"]] == pytest.approx(bounds, nan_ok=True)


def test_kinds_that_cannot_close_are_left_out():
    kept = sets([0, 1, 3, 4, 4, 4, 4], [0, 0, 3, 4, 4, 4, 4], [1, 1, 1, 4, 4, 4, 4])
    assert list(rows(kept_kinds(frame(kept), {"m": KINDS}, ["encoder"], 0.9))) == [("encoder", None)]


def test_other_models_have_one_kind():
    found = rows(kept_kinds(frame(sets([0, 2], [0, 0])), {"other": KINDS}, ["encoder"], 0.9))["self", None]
    assert found["share"] == 1 / 8
    assert np.isnan(found["depth"])  # a seed keeps no head
    assert np.isnan(found["share_low"])  # two seeds


def test_a_kind_closed_in_a_seed_has_no_depth_and_still_a_share():
    found = rows(kept_kinds(frame(sets([0, 2], [0, 0], [1, 0])), {}, [], 0.9))["self", None]
    assert found["share"] == pytest.approx(3 / 24)
    assert found["share_low"] < found["share"] < found["share_high"]
    assert np.isnan(found["depth"]) and np.isnan(found["depth_low"])


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.slow
def test_intervals_cover_the_mean_over_seeds(seeds):
    """Of 500 studies, whose shares vary between seeds by more than the drawing of their heads."""
    rng = np.random.default_rng(0)
    models, truth = [f"m{i}" for i in range(500)], {"encoder": 0.4, "cross": 0.6}
    layers = {"encoder": 6, "cross": 6}
    frames = []
    for model in models:
        share = [rng.beta(5 * p, 5 * (1 - p), size=(seeds, 1, 1)) for p in truth.values()]
        kept = np.concatenate([rng.random((seeds, 6, 8)) < p for p in share], axis=1)
        frames.append(frame(kept, model))
    table = kept_kinds(pd.concat(frames), dict.fromkeys(models, layers), [], 0.95)
    assert list(table.columns) == list(KEPT_KINDS.columns)
    for against, expected in ((None, 0.4), ("encoder", 0.2)):
        kind = "cross" if against else "encoder"
        of = table[
            (table["kind"] == kind)
            & (table["against"].isna() if against is None else table["against"] == against)
        ]
        covered = ((of["share_low"] <= expected) & (expected <= of["share_high"])).mean()
        assert 0.9 < covered < 0.98
        deep = ((of["depth_low"] <= 0) & (of["depth_high"] >= 0)).mean()
        assert 0.88 < deep < 0.98
