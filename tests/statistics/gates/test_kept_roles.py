"""Roles of the heads that are kept: counts, the permutation within layers, its level when seeds are alike."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from headspec.config.runs import PrunedRun, Run
from headspec.statistics.kept_roles import kept_roles, role_counts
from headspec.statistics.resampling import holm
from support.data.elements import elements

ROLES = ["positional", "syntactic"]


def run(seed: int) -> Run:
    return Run("m", "a+b", ("a", "b"), "tuned", seed)


def gates(kept: np.ndarray, task: str | None = None) -> pd.DataFrame:
    """A table 'gates_of_run' whose first step keeps what its last one does not."""
    steps = [elements("layer", "head", kept=each).assign(step=step) for step, each in ((0, ~kept), (9, kept))]
    return pd.concat(steps).assign(task=task)


def counted(
    role: np.ndarray, kept: np.ndarray, draws: int = 2000, exists: np.ndarray | None = None
) -> pd.DataFrame:
    """The table `role_counts` of one pruning method; role and kept are (seeds, layers, heads)."""
    tables = {PrunedRun(run(s), "l0", "shared", 0.5): gates(of_seed) for s, of_seed in enumerate(kept)}
    if exists is not None:
        tables = {cell: of[exists[of["layer"], of["head"]]] for cell, of in tables.items()}
    before = {run(s): elements("layer", "head", role=of_seed) for s, of_seed in enumerate(role)}
    return role_counts(kept_roles(tables, before, {}), ROLES, 0, draws).set_index("role")


@pytest.mark.parametrize("size", [8, 6])
def test_one_seed_has_the_hypergeometric_distribution(size):
    """Layer 0 keeps 3 of 8 heads, 2 of the 4 with the role; layer 2 keeps 5 of its own, all 3 with the role.

    Layer 1 has no heads.
    """
    role, kept = np.full((1, 3, 8), "none", dtype=object), np.zeros((1, 3, 8), dtype=bool)
    role[0, 0, :4] = role[0, 2, :3] = "positional"
    kept[0, 0, [0, 1, 7]] = kept[0, 2, :5] = True
    exists = np.arange(8) < np.array([8, 0, size])[:, None]
    row = counted(role, kept, draws=40_000, exists=exists).loc["positional"]
    assert (row["before"], row["kept"], row["heads"], row["n_seeds"]) == (7, 5, 8, 1)
    assert row["kept_by_layer"] == pytest.approx(expected := 3 * 4 / 8 + 5 * 3 / size)
    i, j = np.indices((4, 4))
    chance = hypergeom(8, 4, 3).pmf(i) * hypergeom(size, 3, 5).pmf(j)
    far = np.abs(i + j - expected) >= 5 - expected - 1e-9
    assert row["p_value"] == pytest.approx(chance[far].sum(), abs=0.01)


def test_seeds_that_are_all_alike_count_as_one():
    rng = np.random.default_rng(0)
    role = rng.choice(["positional", "none"], (1, 4, 8)).astype(object)
    kept = rng.random((1, 4, 8)) < 0.4
    one, five = counted(role, kept), counted(role.repeat(5, axis=0), kept.repeat(5, axis=0))
    assert one.loc["positional", "p_value"] == five.loc["positional", "p_value"]
    assert five.loc["positional", "n_seeds"] == 5


def test_means_and_ranges_over_seeds():
    """Where nothing can differ there is no p."""
    role = np.array([[["positional", "syntactic", "none", "none"]]] * 2, dtype=object)
    kept = np.array([[[True, False, True, False]], [[False, False, True, False]]])
    rows = counted(role, kept)
    row = rows.loc["positional"]
    assert (row["kept"], row["kept_least"], row["kept_most"], row["heads"]) == (0.5, 0, 1, 1.5)
    assert row["kept_by_layer"] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert rows["after"].isna().all() and rows["moved"].isna().all()
    np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"]))
    for every in (True, False):
        assert counted(role, np.full(kept.shape, every))["p_value"].isna().all()


def test_roles_after_are_those_of_kept_heads_and_may_have_moved():
    role = np.array([["positional", "positional", "none", "none"]], dtype=object)
    kept = np.array([[True, False, True, True]])
    then = np.array([["none", "positional", "positional", "syntactic"]], dtype=object)
    cell = PrunedRun(run(0), "subset", "per_task", 0.75)
    tables = {cell: pd.concat([gates(kept, "a"), gates(~kept, "b")])}
    roles = {run(0): elements("layer", "head", role=role)}
    frame = kept_roles(tables, roles, {(cell, "a"): elements("layer", "head", role=then)})
    after = frame.groupby("task")["role_after"].agg(list)
    assert after["a"] == ["none", "none", "positional", "syntactic"] and after["b"] == [None] * 4
    rows = role_counts(frame, ROLES, 0).set_index(["task", "role"])
    assert rows.loc[("a", "positional"), ["before", "kept", "after", "moved"]].tolist() == [2, 1, 1, 1]
    assert rows.loc[("a", "syntactic"), ["before", "kept", "after", "moved"]].tolist() == [0, 0, 1, 1]
    assert np.isnan([rows.loc[("a", "syntactic"), "p_value"], rows.loc[("b", "positional"), "after"]]).all()


@pytest.mark.thorough
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_level_under_the_null(alike):
    """Roles and kept heads have nothing to do with each other, but each is much the same in all seeds."""
    rng, p, shape = np.random.default_rng(1), [], (6, 12)
    for _ in range(240):
        common, own = rng.normal(size=(2, *shape)), rng.normal(size=(3, 2, *shape))
        of_seeds = alike**0.5 * common + (1 - alike) ** 0.5 * own  # (seeds, 2, layers, heads)
        role = np.where(of_seeds[:, 0] > 0.8, "positional", "none").astype(object)
        p.append(counted(role, of_seeds[:, 1] > 0.3, draws=199).loc["positional", "p_value"])
    rate = np.mean(np.array(p) <= 0.05)
    assert 0.025 <= rate <= 0.08, rate


@pytest.mark.thorough
def test_power():
    """Heads with a role are kept more often."""
    rng = np.random.default_rng(2)
    role = np.where(rng.random((3, 6, 12)) < 0.2, "positional", "none").astype(object)
    kept = rng.random((3, 6, 12)) < np.where(role == "positional", 0.8, 0.3)
    row = counted(role, kept).loc["positional"]
    assert row["kept"] > row["kept_by_layer"] and row["p_value"] < 0.01
