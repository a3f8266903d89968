"""Pruning masks, and the evaluation of every task under each of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headspec import tables
from headspec.heads.masks import draw_rows, masks, random_by_layer, random_heads
from headspec.heads.pruning import (
    EVALUATION,
    PREDICTIONS,
    PRUNING,
    evaluated,
    evaluation_table,
    in_predictions,
    predictions,
    predictions_table,
    pruning_table,
)  # fmt: skip
from headspec.heads.ranking import prune_count
from headspec.seeds import derive
from headspec.tasks.metrics import score
from support.tiny import CPU, HEADS, LAYERS

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}
METRICS = {"a": ["accuracy", "f1"], "b": ["accuracy"], "r": ["spearman"]}


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
    (none,) = [m for m in planned if m.pruned_for == "none"]
    assert (none.order, none.fraction, none.draw, none.closed.any()) == (None, 0.0, None, False)
    assert {m.closed.dtype for m in planned} == {np.dtype(bool)}
    assert {m.fraction for m in planned if m.draw is not None} == {0.3}
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


@pytest.mark.parametrize("shape", [(30, 9), (6, 12), (7, 7), (1, 3)])
def test_numbers_of_heads_are_pruned_exactly(shape):
    importance = np.random.default_rng(0).random(shape)
    numbers = [n for n in (1, 2, 3, 23, 49, 270) if n <= importance.size]
    planned = masks({"a": importance}, 0.5, [], draws=2, seed=1, bottom=False, heads=numbers)
    tops = [m for m in planned if m.pruned_for == "a"]
    assert {m.closed.sum() for m in tops} == {importance.size // 2, *numbers}
    for mask in tops:
        assert mask.closed.sum() == prune_count(mask.fraction, importance.size)
        assert importance[mask.closed].min() >= importance[~mask.closed].max(initial=0)


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


def test_layer_matched_draws_cycle_through_the_tasks(planned):
    tops = [m.closed for m in planned if m.order == "top" and m.fraction == 0.3]
    for mask in planned:
        if mask.pruned_for == "random_by_layer":
            assert (mask.closed.sum(1) == tops[mask.draw % 3].sum(1)).all()


@pytest.mark.parametrize("draws", [2, 3, 7])
def test_every_task_has_a_draw_with_its_layers(draws):
    """Each task's heads are in a layer of their own; draws beyond the number of tasks stay as they are."""
    importances = {f"t{i}": np.eye(8)[i][:, None] * np.ones(4) for i in range(5)}
    planned = masks(importances, 1 / 8, [], draws, seed=1)
    by_layer = [mask for mask in planned if mask.pruned_for == "random_by_layer"]
    assert [mask.draw for mask in by_layer] == list(range(max(draws, 5)))
    assert {int(mask.closed.sum(axis=1).argmax()) for mask in by_layer} == set(range(5))
    assert [mask.pruned_for for mask in planned].count("random") == draws


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any), st.data())
def test_random_masks(heads, data):
    """Of layers with these numbers of heads, none included: as many as asked for, each of them there."""
    exists = np.arange(max(heads)) < np.array(heads)[:, None]
    n = data.draw(st.integers(1, sum(heads)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    closed = random_heads(exists, n, rng)
    assert closed.sum() == n and exists[closed].all()
    by_layer = random_by_layer(closed, exists, rng)
    assert (by_layer.sum(1) == closed.sum(1)).all() and exists[by_layer].all()


def test_masks_of_ragged_layers_are_of_heads_that_exist():
    """Fractions are of 10 heads in four layers, of which the second has none and the last one two."""
    exists = np.arange(4) < np.array([4, 0, 4, 2])[:, None]
    rng = np.random.default_rng(0)
    importances = {task: np.where(exists, rng.random(exists.shape), np.nan) for task in "ab"}
    planned = masks(importances, 0.3, [0.5, 1.0], draws=20, seed=1, heads=[4])
    numbers = {0.3: 3, 0.4: 4, 0.5: 5, 1.0: 10, 0.0: 0}
    assert {mask.fraction for mask in planned} == set(numbers)
    for mask in planned:
        assert mask.closed.sum() == numbers[mask.fraction] and exists[mask.closed].all()
    tops, bottoms = (
        {(mask.pruned_for, mask.fraction): mask.closed for mask in planned if mask.order == order}
        for order in ("top", "bottom")
    )
    for task in "ab":
        assert (tops[task, 0.5] ^ bottoms[task, 0.5])[exists].all()
    drawn = np.mean([mask.closed for mask in planned if mask.pruned_for == "random"], axis=0)
    assert (drawn[exists] > 0).all()


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


def test_random_masks_on_some_of_the_examples(model, data, planned):
    on_all = predictions(model, data, planned, CPU)
    found = evaluated(model, data, planned, CPU, draw_examples=5, seed=3)
    on_some = {task: answers.values for task, answers in found.items()}
    for task, of_task in data.items():
        for i, mask in enumerate(planned):
            used = ~on_some[task].mask[i]
            assert used.sum() == (len(of_task) if mask.draw is None else 5)
            np.testing.assert_allclose(on_some[task][i][used], on_all[task][i][used], rtol=1e-4, atol=1e-5)
        assert np.isfinite(on_some[task].compressed()).all() and not on_all[task].mask.any()
    table = pruning_table(planned, data, on_some, METRICS)
    assert set(table[table["draw"].notna()]["n"]) == {5}


def test_tables(model, data, planned):
    found = evaluated(model, data, planned, CPU)
    predicted = {task: answers.values for task, answers in found.items()}
    table = pruning_table(planned, data, predicted, METRICS)
    assert len(table) == len(planned) * 4 and list(table) == list(PRUNING.columns)
    base = table[(table["pruned_for"] == "none") & (table["metric"] == "f1")].iloc[0]
    assert base["value"] == score("f1", data["a"].label, predicted["a"][0]) and base["n"] == 23
    kept = predictions_table(planned, data, found)
    assert set(kept) == set(PREDICTIONS.columns) and kept.index.is_unique
    of_a = kept[(kept["pruned_for"] == "none") & (kept["task"] == "a")]
    assert of_a["example"].tolist() == list(range(23)) and of_a["label"].tolist() == data["a"].label.tolist()
    tops = {(m.pruned_for, m.fraction): i for i, m in enumerate(planned) if m.order == "top"}
    assert {fraction for _, fraction in tops} == set(kept["fraction"]) - {0}
    assert len(kept) == (1 + len(tops)) * (23 + 31 + 17)
    for (task, fraction), i in tops.items():
        rows = kept[(kept["pruned_for"] == task) & (kept["fraction"] == fraction) & (kept["task"] == "r")]
        np.testing.assert_array_equal(rows["prediction"], predicted["r"][i].astype(float))


def test_the_table_has_what_one_pass_per_mask_gives(model, data, planned, tmp_path):
    """Probabilities by class, of the regression none, and without them the same predictions."""
    plain = evaluated(model, data, planned, CPU, draw_examples=5)
    found = evaluated(model, data, planned, CPU, draw_examples=5, probabilities=True)
    assert {task for task, answers in found.items() if answers.probabilities.size} == {"a", "b"}
    for task, answers in plain.items():
        assert answers.values.tobytes() == found[task].values.tobytes()
    path = tmp_path / "predictions.parquet"
    tables.write(path, PREDICTIONS, predictions_table(planned, data, plain), {})
    assert tables.read(path, probabilities=True)["probabilities"].isna().all()
    tables.write(path, PREDICTIONS, predictions_table(planned, data, found), {})
    assert "probabilities" not in tables.read(path)
    kept = tables.read(path, probabilities=True)
    assert kept[kept["task"] == "r"]["probabilities"].isna().all()
    for mask in filter(in_predictions, planned):
        model.gates.values = torch.from_numpy(~mask.closed).float()
        for task, texts in data.items():
            rows = kept.query(
                "pruned_for == @mask.pruned_for and fraction == @mask.fraction and task == @task"
            )
            with torch.no_grad():
                alone = torch.cat([model.pool(texts.batch(np.array([row]))) for row in range(len(texts))])
                predicted, logits = model.predictions(task, alone), model.logits(task, alone)
            np.testing.assert_allclose(rows["prediction"], predicted, rtol=1e-4, atol=1e-5)
            if task != "r":
                read = np.stack(rows["probabilities"])
                assert read.dtype == np.float32 and read.shape == (len(texts), len(CLASSES[task]))
                np.testing.assert_allclose(read, logits.softmax(1), rtol=1e-4, atol=1e-6)
    model.gates.values = None


def test_the_table_without_pruning_is_that_of_the_empty_mask(model, data, planned):
    table = evaluation_table(model, data, CPU)
    kept = predictions_table(planned, data, evaluated(model, data, planned, CPU))
    expected = kept[kept["pruned_for"] == "none"][list(EVALUATION.columns)]
    assert list(table) == list(EVALUATION.columns) and table.equals(expected.reset_index(drop=True))
