"""Measures of heads that take one backward pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec import tables
from headspec.atlas.relevance import loss_gradients, relevance_measures, relevances
from headspec.atlas.sample import FOLDS, HEAD_FOLDS, sampled
from headspec.errors import NumericalError
from headspec.heads.importance import gate_gradients
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from support import tiny
from support.contexts import seen
from support.tiny import CPU, LAYERS, by_family, encoder, examples

ROWS = np.array([3, 0, 2, 5])
CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}


def multitask(kind: str = "bert", pooling: str | None = None) -> MultiTask:
    torch.manual_seed(1)
    model = MultiTask(encoder(kind), pooling or tiny.pooling(kind), CLASSES).eval()
    for classifier in model.classifiers:
        torch.nn.init.normal_(classifier.weight)
    return model


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    return multitask(request.param)


@pytest.fixture(scope="module")
def bert() -> MultiTask:
    return multitask(pooling="mean")


@pytest.fixture(scope="module")
def data() -> dict[str, Examples]:
    return {"a": examples(30, 2, 1), "b": examples(50, 3, 2), "r": examples(25, 5, 3)}


def test_gates_on_tokens_add_up_to_the_gate_of_the_head(model):
    by_example, by_token = np.moveaxis(loss_gradients(model, "b", examples(6), ROWS, CPU), 1, 0)
    expected = gate_gradients(model, "b", examples(6), ROWS, CPU)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(by_example, expected, rtol=1e-3, atol=1e-5 * scale)
    assert (by_token >= np.abs(by_example) - 1e-5 * scale).all() and (by_token > 1.01 * by_example).any()


def test_token_importance_is_the_product_of_context_and_its_gradient(model):
    """The sum over tokens of |ctx . dL/dctx|, as released with Michel et al.; one example, no padding."""
    texts = examples(1)
    batch = texts.batch(np.arange(1))
    with seen(model.gates) as contexts:
        loss = model.losses("a", model.pool(batch), batch.labels).sum()
    gradients = torch.autograd.grad(loss, [contexts[layer] for layer in range(LAYERS)])
    for layer, gradient in enumerate(gradients):
        product = (contexts[layer] * gradient)[0].sum(-1)
        expected = product.abs().sum(0).detach()  # over tokens
        measured = loss_gradients(model, "a", texts, np.arange(1), CPU)[0, 1, layer]
        np.testing.assert_allclose(measured, expected, rtol=2e-3, atol=2e-5 * float(expected.max()))


@pytest.mark.parametrize("rules", ["constant_attention", "attnlrp"])
def test_batched_relevance_equals_a_loop(model, rules):
    texts, rows = examples(9), np.random.default_rng(0).permutation(9)
    batched = relevances(model, "b", texts, rows, CPU, rules=rules)
    for i, row in enumerate(rows):
        alone = relevances(model, "b", texts, np.array([row]), CPU, rules=rules)[0]
        np.testing.assert_allclose(batched[i], alone, rtol=2e-3, atol=2e-5 * np.abs(alone).max())


def test_relevance_is_that_of_the_predicted_class_and_of_the_score(bert, data):
    texts = data["a"].batch(np.arange(1))
    found = [relevances(bert, task, data["a"], np.arange(1), CPU) for task in CLASSES]
    predicted = int(bert.predictions("b", bert.pool(texts)))
    only = multitask(pooling="mean")
    classifier, chosen = bert.classifiers[1], only.classifiers[2]
    with torch.no_grad():  # the score is now the logit of the predicted class
        chosen.weight.copy_(classifier.weight[[predicted]]), chosen.bias.copy_(classifier.bias[[predicted]])
    np.testing.assert_allclose(relevances(only, "r", data["a"], np.arange(1), CPU), found[1], rtol=1e-4)
    assert not np.allclose(found[2], found[1], rtol=0.1)


def test_the_measures_of_a_fold_are_means_over_its_examples(bert, data, tmp_path):
    frame = relevance_measures(bert, data, CPU, wanted=40)
    tables.write(tmp_path / "relevance.parquet", HEAD_FOLDS, frame, {})
    for task, texts in data.items():
        rows = sampled(task, len(texts), 40)
        assert len(rows) == min(40, len(texts))
        gradients = gate_gradients(bert, task, texts, rows, CPU).astype(float)
        relevance = np.abs(relevances(bert, task, texts, rows, CPU)).astype(float)
        expected = {
            "importance": np.abs(gradients),
            "gradient_x_activation": -gradients,
            "relevance": relevance / relevance.sum(2, keepdims=True),
            "token_importance": loss_gradients(bert, task, texts, rows, CPU)[:, 1],
        }
        of_task = frame[frame["task"] == task].set_index(["measure", "fold", "layer", "head"]).sort_index()
        assert set(of_task.index.unique("measure")) == set(expected)
        for measure, values in expected.items():
            for fold in (0, FOLDS - 1):
                of_fold = of_task.loc[measure, fold]
                means = values[fold::FOLDS].mean(0)
                np.testing.assert_allclose(
                    of_fold["value"].to_numpy().reshape(means.shape), means, rtol=1e-3, atol=1e-6
                )
                assert set(of_fold["n"]) == {len(values[fold::FOLDS])}
    layers = frame[frame["measure"] == "relevance"].groupby(["task", "fold", "layer"])["value"].sum()
    np.testing.assert_allclose(layers, 1, rtol=1e-5)
    by_head = frame.pivot_table(index=["task", "fold", "layer", "head"], columns="measure", values="value")
    assert (by_head["token_importance"] >= by_head["importance"] * 0.9999).all()
    assert by_head["gradient_x_activation"].min() < 0 < by_head["importance"].min()


def test_gradient_x_activation_says_how_much_the_loss_rises_when_a_head_fades(bert, data):
    texts = data["b"]
    rows = sampled("b", len(texts), 50)
    frame = relevance_measures(bert, {"b": texts}, CPU, wanted=50)
    estimates = frame[frame["measure"] == "gradient_x_activation"]
    by_head = (estimates["value"] * estimates["n"]).groupby(
        [estimates["layer"], estimates["head"]]
    ).sum() / 50
    batch, step = texts.batch(rows), 0.01
    for layer, head in [(0, 1), (LAYERS - 1, 2)]:
        losses = []
        for gate in (1 - step, 1 + step):
            bert.gates.values = torch.ones(bert.gates.layers, bert.gates.heads)
            bert.gates.values[layer, head] = gate
            with torch.no_grad():
                losses.append(float(bert.losses("b", bert.pool(batch), batch.labels).mean()))
        bert.gates.values = None
        rise = (losses[0] - losses[1]) / (2 * step)
        assert by_head[layer, head] == pytest.approx(rise, rel=0.05, abs=0.02 * float(by_head.abs().max()))


def test_the_model_stays_as_it_was(data):
    model = multitask().train()
    model.encoder.embeddings.requires_grad_(False)
    learning = [p.requires_grad for p in model.parameters()]
    relevance_measures(model, {"a": data["a"]}, CPU, wanted=4)
    assert model.training and model.gates.values is None
    assert [p.requires_grad for p in model.parameters()] == learning
    assert all(p.grad is None for p in model.parameters())


def test_batches_get_smaller_when_memory_runs_out(bert, data, monkeypatch):
    expected = relevance_measures(bert, data, CPU, wanted=20)
    pool, sizes = MultiTask.pool, []

    def limited(self, batch):
        sizes.append(len(batch.rows))
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return pool(self, batch)

    monkeypatch.setattr(MultiTask, "pool", limited)
    found = relevance_measures(bert, data, CPU, wanted=20)
    assert max(sizes) == 20
    np.testing.assert_allclose(found["value"], expected["value"], rtol=1e-3, atol=1e-6)


def test_a_model_of_nan_is_refused(data):
    model = multitask()
    with torch.no_grad():
        model.classifiers[0].weight[0, 0] = torch.nan
    with pytest.raises(NumericalError, match="task 'a'"):
        relevances(model, "a", data["a"], np.arange(3), CPU)


def test_bf16_gives_nearly_the_same_relevance(bert, data):
    rows = np.arange(20)
    exact = relevances(bert, "b", data["b"], rows, CPU)
    rounded = relevances(bert, "b", data["b"], rows, Device("cpu", "bfloat16"))
    assert np.corrcoef(exact.ravel(), rounded.ravel())[0, 1] > 0.99


@pytest.mark.needs("GPU")
def test_a_gpu_gives_the_same(model, data):
    gpu, rows = Device("cuda", None, 32_768, 4096), np.arange(20)
    for measure in (loss_gradients, relevances):
        expected = measure(model, "b", data["b"], rows, CPU)
        found = measure(model, "b", data["b"], rows, gpu)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
