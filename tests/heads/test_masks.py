"""Pruning masks: what is planned, and random heads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.heads.masks import draw_rows, masks, random_by_layer, random_heads
from headspec.heads.ranking import prune_count
from headspec.seeds import derive


def test_the_plan():
    """Fractions of 12 heads are 1, 3 and 6 heads; the main fraction is evaluated even if not listed."""
    rng, fractions = np.random.default_rng(0), {0.1: 1, 0.3: 3, 0.5: 6}
    importances = {task: rng.random((3, 4)) for task in "abr"}
    planned = masks(importances, 0.3, [0.1, 0.5], draws=4, seed=1)
    fields = [(m.pruned_for, m.order, m.fraction, m.draw, m.closed.sum()) for m in planned]
    expected = [("none", None, 0.0, None, 0)]
    expected += [
        (task, order, fraction, None, n)
        for fraction, n in fractions.items()
        for task in importances
        for order in ("top", "bottom")
    ]
    expected += [
        (kind, None, 0.3, draw, 3) for kind in ("random", "random_by_layer") for draw in range(4)
    ]  # fmt: skip
    assert fields == expected and {m.closed.dtype for m in planned} == {np.dtype(bool)}
    tops = [m.closed for m in planned if m.order == "top" and m.fraction == 0.3]
    for mask in planned[-4:]:  # as many in each layer as of the tasks in turn
        assert (mask.closed.sum(1) == tops[mask.draw % 3].sum(1)).all()
    without = masks(importances, 0.3, [0.1, 0.5], draws=4, seed=1, bottom=False)
    others = [mask for mask in planned if mask.order != "bottom"]
    assert list(map(str, without)) == list(map(str, others))  # otherwise the same


def test_draws_are_seeded():
    importances, every = {"a": np.arange(12.0).reshape(3, 4)}, np.ones((3, 4), dtype=bool)
    planned = masks(importances, 0.3, [0.3], 50, seed=7)
    top = next(mask.closed for mask in planned if mask.order == "top")
    drawn = {(mask.pruned_for, mask.draw): mask.closed for mask in planned if mask.draw is not None}
    for draw in range(50):
        at_random = random_heads(every, 3, np.random.default_rng(derive(7, "random", draw)))
        by_layer = random_by_layer(top, every, np.random.default_rng(derive(7, "random_by_layer", draw)))
        assert (drawn["random", draw] == at_random).all()
        assert (drawn["random_by_layer", draw] == by_layer).all()
    assert len({closed.tobytes() for closed in drawn.values()}) > 50


@pytest.mark.parametrize("draws", [2, 7])
def test_every_task_has_a_draw_with_its_layers(draws):
    """Each task's heads are in a layer of their own; draws beyond the number of tasks stay as they are."""
    importances = {f"t{i}": np.eye(8)[i][:, None] * np.ones(4) for i in range(5)}
    planned = masks(importances, 1 / 8, [], draws, seed=1)
    by_layer = [mask for mask in planned if mask.pruned_for == "random_by_layer"]
    assert [mask.draw for mask in by_layer] == list(range(max(draws, 5)))
    assert {int(mask.closed.sum(axis=1).argmax()) for mask in by_layer} == set(range(5))
    assert [mask.pruned_for for mask in planned].count("random") == draws


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any), st.data())
def test_masks_of_ragged_layers_are_of_heads_that_exist(heads, data):
    """Fractions are of the heads that exist; random masks have as many as asked for, by layer or in all."""
    exists = np.arange(max(heads)) < np.array(heads)[:, None]
    n = data.draw(st.integers(1, sum(heads)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    importances = {task: np.where(exists, rng.random(exists.shape), np.nan) for task in "ab"}
    planned = masks(importances, n / sum(heads), [1.0], draws=2, seed=1, heads=[1, sum(heads) // 2])
    for mask in planned:
        count = prune_count(mask.fraction, sum(heads))
        assert mask.closed.sum() == count and exists[mask.closed].all()
        if mask.order == "top":
            values, kept = importances[mask.pruned_for], exists & ~mask.closed
            assert values[mask.closed].min(initial=1) >= values[kept].max(initial=0)
    assert {mask.closed.sum() for mask in planned} == {0, 1, n, sum(heads) // 2, sum(heads)}
    half = {(m.pruned_for, m.order): m.closed for m in masks(importances, 0.5, [], 1, 1)}
    if sum(heads) % 2 == 0:
        assert all(np.array_equal(half[task, "top"] ^ half[task, "bottom"], exists) for task in "ab")
    closed = random_heads(exists, n, rng)
    by_layer = random_by_layer(closed, exists, rng)
    assert closed.sum() == n and exists[closed].all() and exists[by_layer].all()
    assert (by_layer.sum(1) == closed.sum(1)).all()


def test_random_masks_choose_every_head_equally_often():
    rng = np.random.default_rng(0)
    exists = np.arange(12) < np.array([12, 0, 8, 12, 4, 12])[:, None]
    share = np.mean([random_heads(exists, 14, rng) for _ in range(4000)], axis=0)
    assert np.abs(share[exists] - 14 / 48).max() < 0.035  # five standard errors


@given(st.integers(1, 50), st.integers(1, 50))
def test_windows_use_every_row_equally_often(size, n):
    rows = [draw_rows(d, size, n, np.random.default_rng(0)) for d in range(n)]
    counts = np.bincount(np.concatenate(rows), minlength=n)
    assert counts.min() == counts.max() == min(size, n)
    assert all(len(set(r)) == min(size, n) for r in rows)
    if size < n:  # they follow one another around a permutation
        order = np.random.default_rng(0).permutation(n)
        assert np.concatenate(rows).tolist() == np.tile(order, size).tolist()
