"""Pruning masks, and the evaluation of every task under each of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headspec.heads.importance import FOLDS, gate_gradients, importance
from headspec.heads.masks import masks, random_by_layer, random_heads, window
from headspec.heads.pruning import predictions, predictions_table, pruning_table
from headspec.heads.ranking import importance_map
from headspec.models.multitask import MultiTask
from headspec.statistics.metrics import score
from support.tiny import CPU, HEADS, LAYERS, encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}
METRICS = {"a": ["accuracy", "f1"], "b": ["accuracy"], "r": ["spearman"]}


@pytest.fixture(scope="module")
def model() -> MultiTask:
    torch.manual_seed(2)
    return MultiTask(encoder("bert"), "mean", CLASSES).eval()


@pytest.fixture(scope="module")
def data():
    return {"a": examples(23, 2, 1), "b": examples(31, 3, 2), "r": examples(17, 5, 3)}


@pytest.fixture(scope="module")
def planned():
    rng = np.random.default_rng(0)
    return masks({t: rng.random((LAYERS, HEADS)) for t in CLASSES}, 0.3, [0.1, 0.5], draws=4, seed=1)


def test_the_plan(planned):
    """Fractions of 12 heads are 1, 3 and 6 heads; the main fraction is evaluated even if not listed."""
    assert [m.pruned_for for m in planned].count("none") == 1
    for task in CLASSES:
        of_task = [m for m in planned if m.pruned_for == task]
        assert sorted((m.order, m.fraction, m.closed.sum()) for m in of_task) == [
            (order, fraction, n)
            for order in ("bottom", "top")
            for fraction, n in ((0.1, 1), (0.3, 3), (0.5, 6))
        ]
    for kind in ("random", "random_by_layer"):
        drawn = [m for m in planned if m.pruned_for == kind]
        assert [m.draw for m in drawn] == [0, 1, 2, 3] and {m.closed.sum() for m in drawn} == {3}


def test_a_plan_without_bottom_heads_is_otherwise_the_same(planned):
    rng = np.random.default_rng(0)
    importances = {t: rng.random((LAYERS, HEADS)) for t in CLASSES}
    without = masks(importances, 0.3, [0.1, 0.5], draws=4, seed=1, bottom=False)
    expected = [mask for mask in planned if mask.order != "bottom"]
    for mask, other in zip(without, expected, strict=True):
        assert (mask.pruned_for, mask.order, mask.fraction, mask.draw) == (
            other.pruned_for, other.order, other.fraction, other.draw,
        )  # fmt: skip
        assert np.array_equal(mask.closed, other.closed)


def test_draws_are_seeded():
    importances = {"a": np.arange(12.0).reshape(3, 4)}
    first, again, other = (masks(importances, 0.3, [0.3], 5, seed) for seed in (1, 1, 2))
    assert all((x.closed == y.closed).all() for x, y in zip(first, again, strict=True))
    assert any((x.closed != y.closed).any() for x, y in zip(first, other, strict=True))


def test_layer_matched_draws_cycle_through_the_tasks(planned):
    tops = [m.closed for m in planned if m.order == "top" and m.fraction == 0.3]
    for mask in planned:
        if mask.pruned_for == "random_by_layer":
            assert (mask.closed.sum(1) == tops[mask.draw % 3].sum(1)).all()


@given(st.integers(1, 12), st.integers(0, 10**6))
def test_random_masks(n, seed):
    rng = np.random.default_rng(seed)
    closed = random_heads((3, 4), n, rng)
    assert closed.sum() == n
    assert (random_by_layer(closed, rng).sum(1) == closed.sum(1)).all()


def test_random_masks_choose_every_head_equally_often():
    rng = np.random.default_rng(0)
    share = np.mean([random_heads((6, 12), 21, rng) for _ in range(4000)], axis=0)
    assert np.abs(share - 21 / 72).max() < 0.035  # five standard errors


@given(st.integers(1, 50), st.integers(1, 50))
def test_windows_use_every_row_equally_often(size, n):
    rows = [window(d, size, n, np.random.default_rng(0)) for d in range(n)]
    counts = np.bincount(np.concatenate(rows), minlength=n)
    assert counts.min() == counts.max() == min(size, n)
    assert all(len(set(r)) == min(size, n) for r in rows)


@pytest.mark.slow
def test_predictions_equal_one_forward_pass_per_mask_and_example(model, data, planned):
    batched = predictions(model, data, planned, CPU)
    for task, of_task in data.items():
        for i in range(0, len(planned), 5):
            model.gates.values = torch.from_numpy(~planned[i].closed).float()
            with torch.no_grad():
                alone = [
                    model.predictions(task, model.pool(of_task.batch(np.array([row])))).item()
                    for row in range(len(of_task))
                ]
            np.testing.assert_allclose(batched[task][i], alone, rtol=1e-4, atol=1e-5)
        model.gates.values = None


def test_random_masks_on_some_of_the_examples(model, data, planned):
    on_all = predictions(model, data, planned, CPU)
    on_some = predictions(model, data, planned, CPU, draw_examples=5, seed=3)
    for task, of_task in data.items():
        for i, mask in enumerate(planned):
            used = ~on_some[task].mask[i]
            assert used.sum() == (len(of_task) if mask.draw is None else 5)
            np.testing.assert_allclose(on_some[task][i][used], on_all[task][i][used], rtol=1e-4, atol=1e-5)
        assert np.isfinite(on_some[task].compressed()).all() and not on_all[task].mask.any()
    table = pruning_table(planned, data, on_some, METRICS)
    assert set(table[table["draw"].notna()]["n"]) == {5}


def test_tables(model, data, planned):
    predicted = predictions(model, data, planned, CPU)
    table = pruning_table(planned, data, predicted, METRICS)
    assert len(table) == len(planned) * 4
    base = table[(table["pruned_for"] == "none") & (table["metric"] == "f1")].iloc[0]
    assert base["value"] == score("f1", data["a"].label, predicted["a"][0]) and base["n"] == 23
    kept = predictions_table(planned, data, predicted)
    tops = {(m.pruned_for, m.fraction): i for i, m in enumerate(planned) if m.order == "top"}
    assert {fraction for _, fraction in tops} == set(kept["fraction"]) - {0}
    assert len(kept) == (1 + len(tops)) * (23 + 31 + 17)
    for (task, fraction), i in tops.items():
        rows = kept[(kept["pruned_for"] == task) & (kept["fraction"] == fraction) & (kept["task"] == "r")]
        np.testing.assert_array_equal(rows["prediction"], predicted["r"][i].astype(float))


def test_importance_is_the_mean_absolute_value_per_sample(model, data):
    """Eq. 4, on all samples; fold sizes differ by at most one."""
    frame = importance(model, data, 10_000, np.random.default_rng(0), CPU)
    assert len(frame) == len(CLASSES) * FOLDS * LAYERS * HEADS
    for task, of_task in data.items():
        alone = [gate_gradients(model, task, of_task, np.array([row]), CPU)[0] for row in range(len(of_task))]
        expected = np.abs(alone).mean(axis=0)
        np.testing.assert_allclose(importance_map(frame, task), expected, rtol=1e-3, atol=1e-6)
        sizes = frame[frame["task"] == task].groupby("fold")["n"].first()
        assert sizes.sum() == len(of_task) and sizes.max() - sizes.min() <= 1


def test_importance_draws_the_requested_number_of_samples(model, data):
    frame = importance(model, data, 12, np.random.default_rng(0), CPU)
    assert set(frame.groupby(["task", "layer", "head"])["n"].sum()) == {12}
