"""Every head ablated alone: losses and predictions of full passes, halves of means, tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec.atlas.ablation import (
    ABLATED,
    ABLATION,
    MEAN_ABLATION,
    SIZE,
    ablate,
    heads_table,
    predictions_table,
)
from headspec.atlas.cumulative import half_maps
from headspec.atlas.sample import FOLDS, sampled
from headspec.atlas.sample import HEAD_FOLDS as SCHEMA
from headspec.errors import NumericalError
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from support.contexts import replaced, seen, without_columns
from support.tiny import CPU, HEADS, LAYERS, by_family, encoder, examples, pooling

CLASSES = {"a": ["x", "y", "z"], "r": None}
BOTH = (ABLATION, MEAN_ABLATION)
SMALL = Device("cpu", None, tokens=40)  # several batches


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    torch.manual_seed(1)
    return MultiTask(encoder(request.param), pooling(request.param), CLASSES).eval()


@pytest.fixture(scope="module")
def bert() -> MultiTask:
    torch.manual_seed(1)
    return MultiTask(encoder("bert"), "mean", CLASSES).eval()


def context_means(model: MultiTask, texts, rows: np.ndarray) -> np.ndarray:
    """Mean context vectors over the tokens of `rows`, (layers, heads, size), from one text at a time."""
    contexts: list[list[np.ndarray]] = [[] for _ in range(LAYERS)]
    for row in rows:
        with torch.no_grad(), seen(model.gates) as found:
            model.pool(texts.batch(np.array([row])))
        for layer, context in found.items():
            contexts[layer].append(context[0].numpy())
    return np.stack([np.concatenate(of_layer).mean(axis=0) for of_layer in contexts])


@pytest.mark.parametrize("task", CLASSES)
def test_ablation_is_a_full_pass_with_a_closed_gate(model, task):
    texts = examples(14, 3, seed=2)
    rows = sampled(task, len(texts), 11)
    found = ablate(model, task, texts, rows, SMALL)
    batch = texts.batch(rows)
    with torch.no_grad():
        plain = model.losses(task, model.pool(batch), batch.labels).numpy()
        np.testing.assert_allclose(found.loss, plain, rtol=1e-4, atol=1e-5)
        for head in np.ndindex(LAYERS, HEADS):
            model.gates.values = torch.ones(LAYERS, HEADS)
            model.gates.values[head] = 0
            closed = model.losses(task, model.pool(batch), batch.labels).numpy()
            np.testing.assert_allclose(
                found.increase[ABLATION][:, *head], closed - plain, rtol=1e-3, atol=1e-5
            )
            model.gates.values = None
    masks = [Mask("x", None, 0.0, None, np.eye(LAYERS * HEADS, dtype=bool)[i].reshape(LAYERS, HEADS))
             for i in range(LAYERS * HEADS)]  # fmt: skip
    pruned = predictions(model, {task: texts}, masks, CPU)[task][:, rows]
    np.testing.assert_allclose(
        found.predictions[ABLATION].reshape(len(rows), -1).T, pruned, rtol=1e-4, atol=1e-5
    )


def test_mean_ablation_gives_every_token_the_mean_of_the_other_half(model):
    """In full passes, with contexts replaced by a hook."""
    texts = examples(14, 3, seed=2)
    rows = sampled("a", len(texts), 11)
    found = ablate(model, "a", texts, rows, SMALL, BOTH)
    zero = ablate(model, "a", texts, rows, SMALL)
    np.testing.assert_allclose(found.increase[ABLATION], zero.increase[ABLATION], atol=1e-6)
    for half in (0, 1):
        means = context_means(model, texts, rows[1 - half :: 2])
        batch = texts.batch(rows[half::2])
        for layer, head in [(0, 0), (1, 3), (LAYERS - 1, 2)]:
            mean = torch.from_numpy(means[layer, head])[None]
            with torch.no_grad():
                plain = model.losses("a", model.pool(batch), batch.labels)
                with replaced(model.gates, layer, head, mean):
                    changed = model.losses("a", model.pool(batch), batch.labels)
            increase = found.increase[MEAN_ABLATION][half::2, layer, head]
            np.testing.assert_allclose(increase, (changed - plain).numpy(), rtol=1e-3, atol=1e-5)


def test_a_head_that_is_the_same_for_every_token_is_worth_nothing_by_its_mean(bert):
    """Its values are a constant: closing it matters, giving every token its mean does not."""
    model = MultiTask(encoder("bert", seed=4), "mean", CLASSES).eval()
    value = model.encoder.encoder.layer[1].attention.self.value
    size = value.weight.shape[0] // HEADS
    with torch.no_grad():
        value.weight[size : 2 * size] = 0
        value.bias[size : 2 * size] = torch.randn(size)
    found = ablate(model, "a", examples(10, 3), np.arange(10), CPU, BOTH)
    assert np.abs(found.increase[MEAN_ABLATION][:, 1, 1]).max() < 1e-5
    assert np.abs(found.increase[ABLATION][:, 1, 1]).min() > 1e-4
    assert np.abs(found.increase[MEAN_ABLATION][:, 1, 0]).min() > 1e-6


def test_a_model_with_one_head_that_decides():
    """All other heads do not reach the residual stream: only this one changes losses and predictions."""
    model = MultiTask(encoder("bert", seed=3), "mean", CLASSES).eval()
    matters = np.zeros((LAYERS, HEADS), dtype=bool)
    matters[1, 2] = True
    without_columns(model.gates, ~matters)
    found = ablate(model, "r", examples(10, 3), np.arange(10), CPU, BOTH)
    for measure in BOTH:
        assert np.array_equal(np.abs(found.increase[measure]).max(axis=0) > 1e-4, matters)
        moved = np.abs(found.predictions[measure] - found.prediction[:, None, None]).max(axis=0)
        assert np.array_equal(moved > 1e-4, matters)
        assert found.increase[measure][:, ~matters].max() < 1e-5


def test_tables(bert):
    texts = examples(30, 3, seed=5)
    rows = sampled("a", 30, 25)
    found = ablate(bert, "a", texts, rows, SMALL, BOTH)
    heads = heads_table("a", found)
    assert set(heads.columns) == set(SCHEMA.columns)
    assert len(heads) == 3 * FOLDS * LAYERS * HEADS and set(heads["measure"]) == {*BOTH, SIZE}
    size = np.abs(found.increase[ABLATION])[1::2].mean(axis=0)
    np.testing.assert_allclose(half_maps(heads, "a", SIZE)[1], size, atol=1e-6)
    maps = half_maps(heads, "a", MEAN_ABLATION)
    np.testing.assert_allclose(maps[1], found.increase[MEAN_ABLATION][1::2].mean(axis=0), atol=1e-6)
    table = predictions_table("a", texts, rows, found)
    assert (
        set(table.columns) == set(ABLATED.columns) and not table.duplicated(list(ABLATED.columns)[:5]).any()
    )
    assert len(table) == (1 + 2 * LAYERS * HEADS) * 25
    plain = table[table["measure"].isna()].set_index("example").loc[texts.example[rows]]
    np.testing.assert_array_equal(plain["prediction"], found.prediction)
    np.testing.assert_array_equal(plain["label"], texts.label[rows])
    closed = table[(table["measure"] == ABLATION) & (table["layer"] == 1) & (table["head"] == 2)]
    np.testing.assert_array_equal(
        closed.set_index("example").loc[texts.example[rows], "prediction"],
        found.predictions[ABLATION][:, 1, 2],
    )


def test_smaller_batches_after_running_out_of_memory(bert, monkeypatch):
    texts, rows = examples(12, 3), np.arange(12)
    expected = ablate(bert, "a", texts, rows, CPU, BOTH)
    pool, sizes = MultiTask.pool, []

    def limited(self, batch):
        sizes.append(len(batch.rows))
        if len(batch.rows) > 4:
            raise RuntimeError("can't allocate memory")
        return pool(self, batch)

    monkeypatch.setattr(MultiTask, "pool", limited)
    found = ablate(bert, "a", texts, rows, CPU, BOTH)
    assert max(sizes) > 4
    for measure in BOTH:
        np.testing.assert_allclose(found.increase[measure], expected.increase[measure], atol=1e-5)


def test_a_loss_that_is_not_finite_is_refused():
    model = MultiTask(encoder("bert"), "mean", CLASSES).eval()
    with torch.no_grad():
        model.classifiers[0].weight.fill_(torch.nan)
    with pytest.raises(NumericalError, match="losses of task 'a' with heads ablated"):
        ablate(model, "a", examples(4, 3), np.arange(4), CPU)
