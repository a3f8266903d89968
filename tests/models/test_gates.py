"""Gates act on heads in models of every type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headspec.heads.importance import gate_gradients
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from support.contexts import zeroed
from support.tiny import CPU, ENCODER_DECODERS, HEADS, LAYERS, TYPES, encoder, examples, pooling
from support.tiny import KINDS as TRANSLATOR

KINDS = list(TYPES)


@pytest.fixture(scope="module", params=KINDS)
def model(request) -> MultiTask:
    torch.manual_seed(1)
    return MultiTask(encoder(request.param), pooling(request.param), {"a": ["x", "y"]}).eval()


def logits(model: MultiTask, batch, values) -> torch.Tensor:
    model.gates.values = values
    try:
        with torch.no_grad():
            return model.logits("a", model.pool(batch))
    finally:
        model.gates.values = None


def test_grid(model):
    assert (model.gates.layers, model.gates.heads) == (LAYERS, HEADS)


def test_open_gates_change_nothing(model):
    batch = examples().batch(np.arange(6))
    plain = logits(model, batch, None)
    assert torch.equal(plain, logits(model, batch, torch.ones(LAYERS, HEADS)))
    assert torch.equal(plain, logits(model, batch, torch.ones(6, LAYERS, HEADS)))


def test_every_head_matters_by_itself(model):
    """Closing each head changes the logits, and differently from every other head."""
    batch = examples().batch(np.arange(6))
    seen = [logits(model, batch, None)]
    for layer in range(LAYERS):
        for head in range(HEADS):
            values = torch.ones(LAYERS, HEADS)
            values[layer, head] = 0
            closed = logits(model, batch, values)
            assert all((closed - other).abs().max() > 1e-7 for other in seen), (layer, head)
            seen.append(closed)


def test_closing_a_head_is_zeroing_its_weights(model):
    batch = examples().batch(np.arange(6))
    for site in model.gates.sites:
        for head in range(HEADS):
            closed = np.zeros((LAYERS, HEADS), dtype=bool)
            closed[site.rows, head] = True
            gated = logits(model, batch, torch.from_numpy(~closed).float())
            with zeroed(model.gates, closed):
                torch.testing.assert_close(gated, logits(model, batch, None), rtol=1e-4, atol=1e-5)


def test_one_gate_per_example(model):
    """Gates of shape (batch, layers, heads) close heads of one example."""
    batch = examples().batch(np.arange(6))
    values = torch.ones(6, LAYERS, HEADS)
    values[2, 1, 3] = 0
    same = torch.ones(LAYERS, HEADS)
    same[1, 3] = 0
    mixed, plain, closed = (logits(model, batch, v) for v in (values, None, same))
    torch.testing.assert_close(mixed[[0, 1, 3, 4, 5]], plain[[0, 1, 3, 4, 5]])
    torch.testing.assert_close(mixed[2], closed[2])


def test_batched_gradient_equals_a_loop(model):
    texts = examples(12)
    rows = np.random.default_rng(0).permutation(12)
    batched = gate_gradients(model, "a", texts, rows, CPU)
    for i, row in enumerate(rows):
        alone = gate_gradients(model, "a", texts, np.array([row]), CPU)[0]
        np.testing.assert_allclose(batched[i], alone, rtol=2e-3, atol=2e-5 * np.abs(alone).max())


def test_gradient_equals_a_finite_difference(model):
    texts = examples(2)
    batch = texts.batch(np.arange(2))
    gradients = gate_gradients(model, "a", texts, np.arange(2), CPU)
    step = 1e-2
    for layer, head in [(0, 0), (1, 2), (LAYERS - 1, HEADS - 1)]:
        losses = []
        for sign in (1, -1):
            model.gates.values = torch.ones(LAYERS, HEADS)
            model.gates.values[layer, head] += sign * step
            with torch.no_grad():
                losses.append(model.losses("a", model.pool(batch), batch.labels))
        model.gates.values = None
        difference = ((losses[0] - losses[1]) / (2 * step)).numpy()
        scale = np.abs(gradients).max()
        np.testing.assert_allclose(gradients[:, layer, head], difference, rtol=0.05, atol=0.02 * scale)


def test_gradient_equals_weight_times_weight_gradient():
    """dL/dxi_h = sum(W_O[:, h] * dL/dW_O[:, h]), where layers do not share W_O."""
    model = MultiTask(encoder("bert"), "first", {"a": ["x", "y"]}).eval()
    texts = examples(1)
    batch = texts.batch(np.arange(1))
    model.losses("a", model.pool(batch), batch.labels).sum().backward()
    gradients = gate_gradients(model, "a", texts, np.arange(1), CPU)[0]
    for layer, site in enumerate(model.gates.sites):
        weight = site.output.weight
        product = (weight * weight.grad).sum(0).view(HEADS, -1).sum(1)
        np.testing.assert_allclose(gradients[layer], product.detach(), rtol=1e-3, atol=1e-6)


def test_gradients_leave_the_model_unchanged():
    model = MultiTask(encoder("bert"), "mean", {"a": ["x", "y"]}).train()
    model.encoder.embeddings.requires_grad_(False)
    learning = [p.requires_grad for p in model.parameters()]
    gate_gradients(model, "a", examples(4), np.arange(4), CPU)
    assert model.training and model.encoder.training and model.gates.values is None
    assert [p.requires_grad for p in model.parameters()] == learning
    assert all(p.grad is None for p in model.parameters())


def test_albert_has_gates_for_every_call_of_its_one_layer(model):
    rows = [[0, 1, 2]] if model.encoder.config.model_type == "albert" else [[0], [1], [2]]
    assert [site.rows for site in model.gates.sites] == rows
    assert model.gates.exists.all()


# --- encoder-decoders


@pytest.fixture(scope="module", params=ENCODER_DECODERS)
def translator(request) -> tuple[PreTrainedModel, HeadGates]:
    built = encoder(request.param)
    return built, HeadGates(built)


def outputs(translator, gates: torch.Tensor | None) -> torch.Tensor:
    """Logits of five target tokens for each of three sources, under these gates."""
    built, heads = translator
    source = examples(3).batch(np.arange(3))
    target = torch.arange(15).view(3, 5) + 5
    heads.values = gates
    try:
        with torch.no_grad():
            inputs = {"input_ids": source.input_ids, "attention_mask": source.attention_mask}
            return built(**inputs, decoder_input_ids=target).logits
    finally:
        heads.values = None


def test_rows_are_the_layers_of_one_kind_of_attention_after_the_other(translator):
    built, heads = translator
    assert (heads.layers, heads.heads) == (sum(TRANSLATOR.values()), HEADS)
    assert heads.first_rows | {"all": heads.layers} == {"encoder": 0, "decoder": 3, "cross": 5, "all": 7}
    assert [row for site in heads.sites for row in site.rows] == list(range(7))
    names = [site.name for site in heads.sites]
    cross = ["encoder_attn" in name or "EncDec" in name for name in names]
    assert ["decoder" in name for name in names] == [False] * 3 + [True] * 4
    assert cross == [False] * 5 + [True] * 2


def test_every_head_of_every_kind_matters_by_itself(translator):
    open_gates = torch.ones(translator[1].layers, HEADS)
    assert torch.equal(plain := outputs(translator, None), outputs(translator, open_gates))
    seen = [plain]
    for row in range(translator[1].layers):
        for head in range(HEADS):
            gates = open_gates.clone()
            gates[row, head] = 0
            closed = outputs(translator, gates)
            assert all((closed - other).abs().max() > 1e-7 for other in seen), (row, head)
            seen.append(closed)


def test_closing_any_head_of_an_encoder_decoder_is_zeroing_its_weights(translator):
    heads = translator[1]
    for row, head in np.ndindex(heads.layers, HEADS):
        closed = np.zeros((heads.layers, HEADS), dtype=bool)
        closed[row, head] = True
        gated = outputs(translator, torch.from_numpy(~closed).float())
        with zeroed(heads, closed):
            torch.testing.assert_close(gated, outputs(translator, None), rtol=1e-4, atol=1e-5)


def test_gates_hold_while_a_decoder_is_called_token_by_token(translator):
    """With a cache, after one call of the encoder, as a text is decoded."""
    built, heads = translator
    source = examples(3).batch(np.arange(3))
    target = torch.arange(15).view(3, 5) + 5
    gates = torch.rand(heads.layers, HEADS)
    whole = outputs(translator, gates)
    heads.values = gates
    with torch.no_grad():
        mask = {"attention_mask": source.attention_mask}
        encoded, cache, logits = built.get_encoder()(source.input_ids, **mask), None, []
        for at in range(5):
            step = built(
                encoder_outputs=encoded, **mask, decoder_input_ids=target[:, [at]], past_key_values=cache
            )
            cache = step.past_key_values
            logits.append(step.logits[:, 0])
    heads.values = None
    torch.testing.assert_close(torch.stack(logits, 1), whole, rtol=1e-3, atol=1e-3)
