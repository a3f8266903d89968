"""Importance of heads: one derivative per example, averaged in folds."""

import copy

import numpy as np
import pytest
import torch

from headspec.errors import NumericalError
from headspec.heads.importance import FOLDS, IMPORTANCE, by_batch, gate_gradients, importance
from headspec.heads.ranking import importance_map
from headspec.models.batching import Batch
from headspec.models.multitask import MultiTask
from support.tiny import CPU, HEADS, LAYERS, encoder

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_importance_is_the_mean_absolute_value_per_sample(model, data, caplog):
    """Eq. 4, and the mean square, on all samples or as many as are wanted; folds differ by at most one."""
    frame = importance(model, data, 10_000, rng(), CPU)
    assert sorted(frame) == sorted(IMPORTANCE.columns) and frame.index.is_unique
    assert len(frame) == len(CLASSES) * FOLDS * LAYERS * HEADS
    for task, of_task in data.items():
        alone = [gate_gradients(model, task, of_task, np.array([row]), CPU)[0] for row in range(len(of_task))]
        of_measure = {"importance": np.abs(alone).mean(axis=0), "fisher": np.square(alone).mean(axis=0)}
        for measure, expected in of_measure.items():
            np.testing.assert_allclose(importance_map(frame, task, measure), expected, rtol=2e-3, atol=1e-6)
        sizes = frame[frame["task"] == task].groupby("fold")["n"].first()
        assert sizes.sum() == len(of_task) and sizes.max() - sizes.min() <= 1
    with caplog.at_level("INFO", "headspec"):
        frame = importance(model, data, 12, rng(), CPU)
    assert set(frame.groupby(["task", "layer", "head"])["n"].sum()) == {12}
    assert "100 %, 36 of 36 examples" in caplog.text and caplog.text.endswith(", r\n")


def test_samples_that_repeat_are_in_one_fold_and_a_line_says_how_many(model, data, caplog):
    once = copy.copy(data["a"])
    once.ids = [once.ids[row % 15] for row in range(len(once))]
    once.lengths = np.array([len(ids) for ids in once.ids])
    assert len({tuple(ids) for ids in once.ids}) == 15
    frame = importance(model, {"a": once}, 99, rng(), CPU)
    assert "task 'a': 8 of 23 samples repeat another" in caplog.text
    assert frame["fold"].nunique() == FOLDS and frame.groupby(["layer", "head"])["n"].sum().eq(23).all()
    caplog.clear()
    importance(model, {"a": data["a"]}, 99, rng(), CPU)
    assert "repeat" not in caplog.text


def test_derivatives_are_those_of_a_model_whose_pruned_heads_are_closed(model, data):
    rows, closed = np.array([4, 2]), rng().random((LAYERS, HEADS)) < 0.4
    found = gate_gradients(model, "a", data["a"], rows, CPU, closed=closed)
    for row, of_row in zip(rows, found, strict=True):
        model.gates.values = gates = torch.from_numpy(~closed).float().requires_grad_()
        batch = data["a"].batch(np.array([row]))
        expected = torch.autograd.grad(model.losses("a", model.pool(batch), batch.labels).sum(), gates)[0]
        np.testing.assert_allclose(of_row, expected, rtol=1e-3, atol=1e-5)
    model.gates.values = None


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_batches_get_smaller_when_memory_runs_out(model, data, error):
    sizes: list[int] = []

    def of_batch(batch: Batch) -> torch.Tensor:
        sizes.append(len(batch.rows))
        if sizes[-1] > 3:
            raise error("out of memory")
        return torch.from_numpy(batch.rows).float()[:, None, None].expand(-1, LAYERS, HEADS)

    rows = rng().permutation(23)[:20]
    values = by_batch(of_batch, "rows", model, "a", data["a"], rows, CPU)
    assert (values == rows[:, None, None]).all()
    assert sizes[0] == 20 and sum(size for size in sizes if size <= 3) == 20


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_left_as_it_was(data, training):
    model = MultiTask(encoder("bert"), "mean", CLASSES).train(training)
    frozen = model.encoder.get_input_embeddings().weight.requires_grad_(False)

    def of_batch(batch: Batch) -> torch.Tensor:
        assert not model.training and not any(weight.requires_grad for weight in model.parameters())
        model.gates.values = torch.ones(LAYERS, HEADS)
        raise RuntimeError("no memory problem")

    with pytest.raises(RuntimeError, match="no memory problem"):
        by_batch(of_batch, "values", model, "a", data["a"], np.arange(3), CPU)
    assert model.training == training and model.gates.values is None
    assert [weight for weight in model.parameters() if not weight.requires_grad] == [frozen]


def test_what_is_not_finite_names_the_task_and_an_example(model, data):
    def of_batch(batch: Batch) -> torch.Tensor:
        of_rows = torch.where(torch.from_numpy(batch.rows) == 5, torch.nan, 1.0)
        return of_rows[:, None, None].expand(-1, LAYERS, HEADS)

    problem = "^values, task 'a', of 1 of 2 examples, such as 5: nan or infinite"
    with pytest.raises(NumericalError, match=problem):
        by_batch(of_batch, "values", model, "a", data["a"], np.array([7, 5]), CPU)
    broken = MultiTask(encoder("bert"), "mean", CLASSES)
    torch.nn.init.constant_(broken.encoder.get_input_embeddings().weight, torch.nan)
    with pytest.raises(NumericalError, match="^gradients of the gates, task 'b', of 31 of 31 examples"):
        importance(broken, {"b": data["b"]}, 99, rng(), CPU)
