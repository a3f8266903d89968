"""Fisher information, gradients and vectors of texts of tiny random models."""

import tracemalloc

import numpy as np
import pytest
import torch

from headspec import tables
from headspec.models.internals.activations import REPRESENTATIONS, representations, task_means, vectors
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.similarity import measures
from headspec.similarity.sensitivity import fisher, gradient, parameters
from support import tiny
from support.tiers import cases
from support.tiny import CPU, TYPES, encoder, examples
from support.translators import translator

#: types with parameters whose use has no dimension of examples
SHARING = ["deberta", "deberta-v2", "mpnet", "bart"]
ROWS = np.array([7, 2, 9, 4, 11])


def model(kind: str) -> MultiTask:
    torch.manual_seed(1)
    return MultiTask(encoder(kind), tiny.pooling(kind), {"a": ["no", "yes"], "b": None}).eval()


def gradients_one_by_one(net: MultiTask, task: str, texts) -> torch.Tensor:
    """Every example's gradient, (n, parameters), by a plain backward pass."""
    gradients = []
    for row in ROWS:
        net.zero_grad()
        batch = texts.batch(np.array([row]))
        net.losses(task, net.pool(batch), batch.labels).sum().backward()
        of_parameters = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters(net)]
        gradients.append(torch.cat([g.flatten() for g in of_parameters]).clone())
    return torch.stack(gradients)


QUICK = {"bert", "deberta-v2", "modernbert", "gpt2", "llama", "bart"}


@pytest.mark.parametrize("kind", cases([*TYPES, "bart"], QUICK.__contains__))
def test_fisher_and_gradient_of_every_architecture_are_those_of_single_examples(kind, caplog, model_folder):
    """By batches, except where a module's output is one for all examples.

    And except BART, whose embeddings of positions take the words instead of indices.
    """
    net, texts = translator(model_folder(kind), kind, 12) if kind == "bart" else (model(kind), examples())
    for task in net.classes:
        each = gradients_one_by_one(net, task, texts)
        net.zero_grad()
        with caplog.at_level("INFO"):
            found = torch.from_numpy(fisher(net, task, texts, ROWS, CPU, Progress(5, "examples")))
        torch.testing.assert_close(found, (each**2).mean(0), rtol=1e-4, atol=1e-7 * float(found.max()))
        mean = gradient(net, task, texts, ROWS, CPU, Progress(5, "examples"))
        np.testing.assert_allclose(mean, each.mean(0), rtol=1e-3, atol=1e-5)
        assert all(p.grad is None for p in net.parameters())
        left_out = sum(p.numel() for p in net.encoder.parameters()) - len(each[0])
        assert left_out == net.encoder.get_input_embeddings().weight.numel()
    assert ("one example at a time" in caplog.text) == (kind in SHARING)


def test_tables_have_the_vectors_that_classifiers_see_bit_by_bit(tmp_path):
    net, texts, every = model("bert").train(), examples(), np.arange(12)  # dropout must not matter
    frame = representations([("b", net), ("a", net)], texts, CPU, 2)
    assert frame["task"].tolist() == ["b"] * 12 + ["a"] * 12
    assert frame["example"].tolist() == 2 * every.tolist()
    tables.write(tmp_path / "vectors.parquet", REPRESENTATIONS, frame, {})
    stored = texts.vectors(tables.read(tmp_path / "vectors.parquet").query("task == 'a'"))
    direct = vectors(net, "a", texts, every, CPU, Progress(12, "texts"))
    assert stored.dtype == np.float32 and np.array_equal(stored, direct)
    net.eval()
    with torch.no_grad():
        seen = [net.pool(texts.batch(np.array([row])))[0].numpy() for row in every]
    assert np.allclose(stored, seen, atol=1e-5)
    means = task_means(net, {"a": texts}, {"a": ROWS}, CPU)
    assert np.allclose(means["vector"][0], stored[ROWS].mean(axis=0), atol=1e-6)
    assert means["example"].isna().all()


def test_cosines_of_all_vectors_are_those_of_pairs(tmp_path, monkeypatch):
    """In double precision, over blocks of which the last is shorter."""
    monkeypatch.setattr(measures, "BLOCK", 100_000)
    vectors = np.random.default_rng(0).gamma(0.02, size=(4, 250_001)).astype(np.float32) * np.float32(1e-9)
    vectors[3] = 0
    found = measures.pairwise_cosines(iter(vectors), tmp_path)
    expected = [[measures.cosine(a, b) for b in vectors] for a in vectors]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(found[3]).all() and np.isfinite(found[0, 1])
    assert not list(tmp_path.iterdir())


def test_vectors_of_many_tasks_are_never_in_memory_together(tmp_path, monkeypatch):
    size, tasks, block = 200_000, 30, 2_000
    monkeypatch.setattr(measures, "BLOCK", block)
    rng = np.random.default_rng(0)
    vectors = (rng.random(size, dtype=np.float32) for _ in range(tasks))
    tracemalloc.start()
    measures.pairwise_cosines(vectors, tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 4 * size < peak < 4 * size + 20 * block * tasks + 1e6
