"""Measures of heads that take one backward pass."""

import numpy as np
import pytest
import torch

from headspec import tables
from headspec.atlas.relevance import loss_gradients, relevance_measures, relevances
from headspec.atlas.sample import FOLDS, HEAD_FOLDS, sampled
from headspec.heads.importance import gate_gradients
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from support.reference.contexts import seen
from support.reference.single_texts import alone
from support.tiny import CPU, LAYERS, encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}
DATA = {"a": examples(30, 2, 1), "b": examples(50, 3, 2), "r": examples(25, 5, 3)}
SMALL = Device("cpu", None, tokens=30)  # several batches


def large() -> MultiTask:
    """A model whose classes and scores differ much."""
    model = MultiTask(encoder("bert"), "mean", CLASSES).eval()
    for classifier in model.classifiers:
        torch.nn.init.normal_(classifier.weight)
    return model


@pytest.fixture(scope="module")
def bert() -> MultiTask:
    return large()


def test_gates_on_tokens_add_up_to_the_gate_of_the_head(made):
    model, texts = made
    rows = np.random.default_rng(0).permutation(len(texts))
    by_example, by_token = np.moveaxis(loss_gradients(model, "a", texts, rows, SMALL), 1, 0)
    expected = gate_gradients(model, "a", texts, rows, CPU)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(by_example, expected, rtol=2e-3, atol=5e-5 * scale)
    assert (by_token >= np.abs(by_example) - 1e-4 * scale).all() and (by_token > 1.01 * by_example).any()


def test_token_importance_is_the_product_of_context_and_its_gradient(made):
    """The sum over tokens of |ctx . dL/dctx|, as released with Michel et al.; one example, no padding."""
    model, texts = made
    batch = alone(texts, 0)
    with seen(model.gates) as contexts:
        loss = model.losses("a", model.pool(batch), batch.labels).sum()
    by_token = loss_gradients(model, "a", texts, np.arange(1), CPU)[0, 1]
    gradients = torch.autograd.grad(loss, [contexts[row] for row in range(model.gates.layers)])
    for row, gradient in enumerate(gradients):
        expected = (contexts[row] * gradient)[0].sum(-1).abs().sum(0).detach()  # over tokens
        np.testing.assert_allclose(by_token[row], expected, rtol=2e-3, atol=2e-5 * float(expected.max()))


@pytest.mark.parametrize("rules", ["constant_attention", "attnlrp"])
def test_batched_relevance_equals_a_loop(made, rules):
    model, texts = made
    rows = np.random.default_rng(0).permutation(len(texts))
    batched = relevances(model, "a", texts, rows, CPU, rules=rules)
    assert (np.abs(batched).max(axis=(0, 2)) > 0).all()
    for i, row in enumerate(rows):
        one = relevances(model, "a", texts, np.array([row]), CPU, rules=rules)[0]
        np.testing.assert_allclose(batched[i], one, rtol=5e-3, atol=1e-4 * np.abs(one).max())


def test_relevance_is_that_of_the_predicted_class_and_of_the_score(bert):
    texts = DATA["a"].batch(np.arange(1))
    found = [relevances(bert, task, DATA["a"], np.arange(1), CPU) for task in CLASSES]
    predicted = int(bert.predictions("b", bert.pool(texts)))
    only = large()
    classifier, chosen = bert.classifiers[1], only.classifiers[2]
    with torch.no_grad():  # the score is now the logit of the predicted class
        chosen.weight.copy_(classifier.weight[[predicted]]), chosen.bias.copy_(classifier.bias[[predicted]])
    np.testing.assert_allclose(relevances(only, "r", DATA["a"], np.arange(1), CPU), found[1], rtol=1e-4)
    assert not np.allclose(found[2], found[1], rtol=0.1)


def test_the_measures_of_a_fold_are_means_over_its_examples(bert, tmp_path):
    frame = relevance_measures(bert, DATA, CPU, wanted=40)
    tables.write(tmp_path / "relevance.parquet", HEAD_FOLDS, frame, {})
    for task, texts in DATA.items():
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
                of_fold, examples = of_task.loc[measure, fold], values[fold::FOLDS]
                means = examples.mean(0).ravel()
                np.testing.assert_allclose(of_fold["value"], means, rtol=1e-3, atol=1e-6)
                assert set(of_fold["n"]) == {len(examples)}


def test_gradient_x_activation_says_how_much_the_loss_rises_when_a_head_fades(bert):
    texts, step = DATA["b"], 0.01
    batch = texts.batch(sampled("b", len(texts), 50))
    frame = relevance_measures(bert, {"b": texts}, CPU, wanted=50).query("measure == 'gradient_x_activation'")
    by_head = frame.assign(sum=frame["value"] * frame["n"]).groupby(["layer", "head"])["sum"].sum() / 50
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


def test_bf16_gives_nearly_the_same_relevance(bert):
    rows = np.arange(20)
    exact = relevances(bert, "b", DATA["b"], rows, CPU)
    rounded = relevances(bert, "b", DATA["b"], rows, Device("cpu", "bfloat16"))
    assert np.corrcoef(exact.ravel(), rounded.ravel())[0, 1] > 0.99
