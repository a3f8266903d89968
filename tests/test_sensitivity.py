"""Fisher information, gradients and vectors of texts by tiny random models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec.gates import HeadGates
from headspec.importance import gate_gradients, importance
from headspec.maps import importance_map
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.representations import mean_of_tasks, of_tasks, vectors
from headspec.sensitivity import fisher, gradient, parameters
from tiny import CPU, encoder, examples

KINDS = ["bert", "gpt2", "albert", "modernbert"]
ROWS = np.array([7, 2, 9, 4, 11])


def model(kind: str) -> MultiTask:
    torch.manual_seed(1)
    pooling = "last" if kind == "gpt2" else "mean"
    return MultiTask(encoder(kind), pooling, {"a": ["no", "yes"], "b": None}).eval()


def one_by_one(own: MultiTask, task: str, texts) -> torch.Tensor:
    """Every example's gradient, (n, parameters), by a plain backward pass."""
    found = []
    for row in ROWS:
        own.zero_grad()
        batch = texts.batch(np.array([row]))
        own.losses(task, own.pool(batch), batch.labels).sum().backward()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters(own)]
        found.append(torch.cat([g.flatten() for g in gradients]).clone())
    return torch.stack(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["a", "b"])
def test_fisher_and_gradient_are_those_of_single_examples(kind, task):
    own, texts = model(kind), examples()
    each = one_by_one(own, task, texts)
    own.zero_grad()
    progress = Progress(10, "examples")
    assert np.allclose(fisher(own, task, texts, ROWS, CPU, progress), (each**2).mean(0), rtol=1e-3, atol=1e-7)
    assert np.allclose(gradient(own, task, texts, ROWS, CPU, progress), each.mean(0), rtol=1e-3, atol=1e-5)
    assert all(p.grad is None for p in own.parameters())


def test_words_are_left_out_and_nothing_else():
    own = model("bert")
    left = sum(p.numel() for p in own.encoder.parameters()) - sum(p.numel() for p in parameters(own))
    assert left == own.encoder.get_input_embeddings().weight.numel()


def test_fisher_of_the_gates_is_the_mean_square_of_their_gradients():
    own, texts = model("bert"), examples()
    frame = importance(own, {"a": texts}, 12, np.random.default_rng(0), CPU)
    gradients = gate_gradients(own, "a", texts, np.arange(12), CPU)
    assert np.allclose(importance_map(frame, "a", "fisher"), (gradients.astype(float) ** 2).mean(0))


def test_gates_tie_both_kinds_of_fisher():
    """The gradient of a gate is sum(W_O * dL/dW_O) over the head's part of the output projection."""
    own, texts = model("bert"), examples()
    row = ROWS[:1]
    flat = torch.from_numpy(gradient(own, "a", texts, row, CPU, Progress(1, "examples")))
    pieces = dict(
        zip(
            [
                n
                for n, p in own.encoder.named_parameters()
                if p is not own.encoder.get_input_embeddings().weight
            ],
            flat.split([p.numel() for p in parameters(own)]),
            strict=True,
        )
    )
    gates = gate_gradients(own, "a", texts, row, CPU)[0]
    assert isinstance(own.gates, HeadGates)
    for layer in range(own.gates.layers):
        name = f"encoder.layer.{layer}.attention.output.dense.weight"
        weight = own.encoder.get_parameter(name).detach()
        per_input = (weight * pieces[name].view_as(weight)).sum(0)
        assert np.allclose(per_input.view(own.gates.heads, -1).sum(1), gates[layer], atol=1e-5)


def test_vectors_are_what_the_classifiers_see():
    own, texts = model("bert"), examples()
    own.train()  # dropout must not matter
    found = vectors(own, "a", texts, ROWS, CPU, Progress(5, "texts"))
    with torch.no_grad():
        for row, vector in zip(ROWS, found, strict=True):
            assert np.allclose(own.pool(texts.batch(np.array([row])))[0], vector, atol=1e-5)


def test_tables_of_vectors():
    own, texts = model("bert"), examples()
    frame = of_tasks(iter([("b", own), ("a", own)]), 2, texts, CPU)
    assert frame["task"].tolist() == ["b"] * 12 + ["a"] * 12
    assert frame["example"].tolist() == 2 * list(range(12))
    means = mean_of_tasks(own, {"a": texts}, {"a": ROWS}, CPU)
    expected = np.stack(frame["vector"].tolist())[ROWS].mean(axis=0)
    assert np.allclose(means["vector"][0], expected, atol=1e-6) and means["example"].isna().all()
