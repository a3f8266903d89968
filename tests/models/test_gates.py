"""Gates act on heads in every architecture of the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from headspec.errors import EncoderError
from headspec.heads.importance import gate_gradients
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
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
    for index, projection in enumerate(model.gates.projections):
        owned = [owner == index for owner in model.gates.owners]
        for head in range(HEADS):
            values = torch.ones(LAYERS, HEADS)
            values[owned, head] = 0
            gated = logits(model, batch, values)
            original = projection.weight.detach().clone()
            read = projection.weight if isinstance(projection, nn.Linear) else projection.weight.T
            size = read.shape[1] // HEADS
            with torch.no_grad():
                read[:, head * size : (head + 1) * size] = 0
            zeroed = logits(model, batch, None)
            with torch.no_grad():
                projection.weight.copy_(original)
            torch.testing.assert_close(gated, zeroed, rtol=1e-4, atol=1e-5)


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
    for layer, projection in enumerate(model.gates.projections):
        product = (projection.weight * projection.weight.grad).sum(0).view(HEADS, -1).sum(1)
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
    if model.encoder.config.model_type == "albert":
        assert len(model.gates.projections) == 1 and model.gates.owners == [0] * LAYERS
    else:
        assert model.gates.owners == list(range(LAYERS))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("llama", "layers.*.self_attn.v_proj"), ("llama", "layers.*.self_attn.q_proj"),
     ("llama", "layers.*.mlp.down_proj"), ("llama", "layers.*.self_attn"), ("gpt2", "h.*.mlp.c_proj"),
     ("bert", "encoder.layer.*.attention.self.value"), ("bert", "encoder.layer.*.attention.output.dropout"),
     ("bert", "encoder.layer.*.output.dense"), ("bert", "encoder.layer.*.attention.self"),
     ("bert", "nothing.*")],
)  # fmt: skip
def test_another_layer_than_the_output_projection_is_refused(monkeypatch, kind, wrong):
    """Comparison with zeroed weights is not enough, because it succeeds for every linear layer."""
    monkeypatch.setitem(TYPES, kind, Architecture(wrong, "mean", ()))
    with pytest.raises(EncoderError, match="cannot be gated"):
        HeadGates(encoder(kind))


def test_an_encoder_that_ignores_its_gates_is_refused(monkeypatch):
    """For example one that is gated after W_O, where heads are mixed."""
    monkeypatch.setattr(HeadGates, "_gate", lambda self, index, *_: self.called["self"].append(index))
    with pytest.raises(EncoderError, match="cannot be gated"):
        HeadGates(encoder("bert"))


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
    assert heads.before | {"all": heads.layers} == {"encoder": 0, "decoder": 3, "cross": 5, "all": 7}
    names = [heads.names[owner] for owner in heads.owners]
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
    for row, owner in enumerate(heads.owners):
        for head in range(HEADS):
            gates = torch.ones(heads.layers, HEADS)
            gates[row, head] = 0
            gated = outputs(translator, gates)
            weight = heads.projections[owner].weight
            original, size = weight.detach().clone(), weight.shape[1] // HEADS
            with torch.no_grad():
                weight[:, head * size : (head + 1) * size] = 0
            zeroed = outputs(translator, None)
            with torch.no_grad():
                weight.copy_(original)
            torch.testing.assert_close(gated, zeroed, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("kind", ["bart", "t5"])
@pytest.mark.parametrize("of", ["encoder", "decoder", "cross"])
def test_another_projection_in_any_kind_of_attention_is_refused(monkeypatch, kind, of):
    right = ENCODER_DECODERS[kind][of]
    wrong = replace(right, projection=right.inputs[1])
    monkeypatch.setitem(ENCODER_DECODERS, kind, ENCODER_DECODERS[kind] | {of: wrong})
    with pytest.raises(EncoderError, match="cannot be gated"):
        HeadGates(encoder(kind))


def test_stacks_with_other_numbers_of_heads_are_refused():
    with pytest.raises(EncoderError, match="4 heads in a layer, its decoder 8; expected equal"):
        HeadGates(encoder("bart", decoder_attention_heads=8))
