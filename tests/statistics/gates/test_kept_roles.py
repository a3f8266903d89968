"""Roles of the heads that are kept: counts, the permutation within layers, its level when seeds are alike."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from headspec.config.runs import PrunedRun, Run
from headspec.statistics.gates.kept_roles import kept_roles, role_counts
from headspec.statistics.resampling import holm

ROLES = ["positional", "syntactic"]


def run(seed: int) -> Run:
    return Run("m", "a+b", ("a", "b"), "tuned", seed)


def of_heads(**values: np.ndarray) -> pd.DataFrame:
    """A row per head of columns (layers, heads)."""
    layer, head = np.indices(next(iter(values.values())).shape)
    columns = {name: value.ravel() for name, value in values.items()}
    return pd.DataFrame({"layer": layer.ravel(), "head": head.ravel(), **columns})


def gates(kept: np.ndarray, task: str | None = None) -> pd.DataFrame:
    """A table 'gates_of_run' whose first step keeps what its last one does not."""
    steps = [of_heads(kept=~kept).assign(step=0), of_heads(kept=kept).assign(step=9)]
    return pd.concat(steps).assign(task=task)


def counted(
    role: np.ndarray, kept: np.ndarray, draws: int = 2000, exists: np.ndarray | None = None
) -> pd.DataFrame:
    """The table `role_counts` of one pruning method; role and kept are (seeds, layers, heads)."""
    tables = {PrunedRun(run(s), "l0", "shared", 0.5): gates(of_seed) for s, of_seed in enumerate(kept)}
    if exists is not None:
        tables = {cell: of[exists[of["layer"], of["head"]]] for cell, of in tables.items()}
    before = {run(s): of_heads(role=of_seed) for s, of_seed in enumerate(role)}
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
    first, second = hypergeom(8, 4, 3), hypergeom(size, 3, 5)
    far = [
        (i, j) for i in range(4) for j in range(4) if abs(i + j - expected) >= 5 - expected - 1e-9
    ]  # fmt: skip
    assert row["p_value"] == pytest.approx(sum(first.pmf(i) * second.pmf(j) for i, j in far), abs=0.01)


def test_seeds_that_are_all_alike_count_as_one():
    rng = np.random.default_rng(0)
    role = rng.choice(["positional", "none"], (1, 4, 8)).astype(object)
    kept = rng.random((1, 4, 8)) < 0.4
    one, five = counted(role, kept), counted(role.repeat(5, axis=0), kept.repeat(5, axis=0))
    assert one.loc["positional", "p_value"] == five.loc["positional", "p_value"]
    assert five.loc["positional", "n_seeds"] == 5


def test_means_and_ranges_over_seeds():
    role = np.array([[["positional", "syntactic", "none", "none"]]] * 2, dtype=object)
    kept = np.array([[[True, False, True, False]], [[False, False, True, False]]])
    rows = counted(role, kept)
    row = rows.loc["positional"]
    assert (row["kept"], row["kept_least"], row["kept_most"], row["heads"]) == (0.5, 0, 1, 1.5)
    assert row["kept_by_layer"] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert rows["after"].isna().all() and rows["moved"].isna().all()
    np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"]))


def test_roles_after_are_those_of_kept_heads_and_may_have_moved():
    role = np.array([["positional", "positional", "none", "none"]], dtype=object)
    kept = np.array([[True, False, True, True]])
    then = np.array([["none", "positional", "positional", "syntactic"]], dtype=object)
    cell = PrunedRun(run(0), "subset", "per_task", 0.75)
    tables = {cell: pd.concat([gates(kept, "a"), gates(~kept, "b")])}
    roles = {run(0): of_heads(role=role)}
    frame = kept_roles(tables, roles, {(cell, "a"): of_heads(role=then)})
    after = frame.groupby("task")["role_after"].agg(list)
    assert after["a"] == ["none", "none", "positional", "syntactic"] and after["b"] == [None] * 4
    rows = role_counts(frame, ROLES, 0).set_index(["task", "role"])
    assert rows.loc[("a", "positional"), ["before", "kept", "after", "moved"]].tolist() == [2, 1, 1, 1]
    assert rows.loc[("a", "syntactic"), ["before", "kept", "after", "moved"]].tolist() == [0, 0, 1, 1]
    assert math.isnan(rows.loc[("a", "syntactic"), "p_value"]) and math.isnan(
        rows.loc[("b", "positional"), "after"]
    )


def test_where_nothing_can_differ_there_is_no_p():
    role = np.array([[["positional", "none"], ["none", "syntactic"]]], dtype=object)
    for kept in (True, False):
        assert counted(role, np.full((1, 2, 2), kept))["p_value"].isna().all()


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_level_under_the_null(alike):
    """Roles and kept heads have nothing to do with each other, but each is much the same in all seeds."""
    rng, p = np.random.default_rng(1), []
    shape, seeds = (6, 12), 3
    for _ in range(240):
        common, own = rng.normal(size=(2, *shape)), rng.normal(size=(seeds, 2, *shape))
        of_seeds = alike**0.5 * common + (1 - alike) ** 0.5 * own  # (seeds, 2, layers, heads)
        role = np.where(of_seeds[:, 0] > 0.8, "positional", "none").astype(object)
        p.append(counted(role, of_seeds[:, 1] > 0.3, draws=199).loc["positional", "p_value"])
    rate = np.mean(np.array(p) <= 0.05)
    assert 0.025 <= rate <= 0.08, rate


@pytest.mark.slow
def test_power():
    """Heads with a role are kept more often."""
    rng = np.random.default_rng(2)
    role = np.where(rng.random((3, 6, 12)) < 0.2, "positional", "none").astype(object)
    kept = rng.random((3, 6, 12)) < np.where(role == "positional", 0.8, 0.3)
    row = counted(role, kept).loc["positional"]
    assert row["kept"] > row["kept_by_layer"] and row["p_value"] < 0.01
