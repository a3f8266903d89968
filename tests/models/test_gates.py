"""Gates of examples and of decoders, and their gradients; `test_every_type` has what holds for each head."""

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headspec.heads.importance import gate_gradients
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from support.tiny import CPU, ENCODER_DECODERS, HEADS, LAYERS, by_family, encoder, examples, multitask
from support.tiny import KINDS as TRANSLATOR


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    return multitask(request.param, {"a": ["x", "y"]})


def logits(model: MultiTask, batch, values) -> torch.Tensor:
    model.gates.values = values
    try:
        with torch.no_grad():
            return model.logits("a", model.pool(batch))
    finally:
        model.gates.values = None


def test_one_gate_per_example(model):
    """Gates of shape (batch, layers, heads) close heads of one example."""
    batch = examples().batch(np.arange(6))
    values = torch.ones(6, LAYERS, HEADS)
    plain = logits(model, batch, None)
    assert torch.equal(plain, logits(model, batch, values))
    values[2, 1, 3] = 0
    mixed, closed = logits(model, batch, values), logits(model, batch, values[2])
    torch.testing.assert_close(mixed[[0, 1, 3, 4, 5]], plain[[0, 1, 3, 4, 5]])
    torch.testing.assert_close(mixed[2], closed[2])
    assert (closed - plain).abs().max() > 1e-7


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


def test_albert_has_gates_for_every_call_of_its_one_layer(model):
    rows = [[0, 1, 2]] if model.encoder.config.model_type == "albert" else [[0], [1], [2]]
    assert [site.rows for site in model.gates.sites] == rows
    assert model.gates.exists.shape == (LAYERS, HEADS) and model.gates.exists.all()


@pytest.fixture(scope="module", params=by_family(ENCODER_DECODERS))
def translator(request) -> tuple[PreTrainedModel, HeadGates]:
    built = encoder(request.param)
    return built, HeadGates(built)


def test_rows_are_the_layers_of_one_kind_of_attention_after_the_other(translator):
    built, heads = translator
    assert (heads.layers, heads.heads) == (sum(TRANSLATOR.values()), HEADS)
    assert heads.first_rows == {"encoder": 0, "decoder": 3, "cross": 5} and heads.layers == 7
    assert [row for site in heads.sites for row in site.rows] == list(range(7))
    names = [site.name for site in heads.sites]
    cross = ["encoder_attn" in name or "EncDec" in name for name in names]
    assert ["decoder" in name for name in names] == [False] * 3 + [True] * 4
    assert cross == [False] * 5 + [True] * 2


@torch.no_grad()
def test_gates_hold_while_a_decoder_is_called_token_by_token(translator):
    """With a cache, after one call of the encoder, as a text is decoded."""
    built, heads = translator
    source = examples(3).batch(np.arange(3))
    mask, target = {"attention_mask": source.attention_mask}, torch.arange(15).view(3, 5) + 5
    heads.values = torch.rand(heads.layers, HEADS)
    whole = built(input_ids=source.input_ids, **mask, decoder_input_ids=target).logits
    encoded, cache, logits = built.get_encoder()(source.input_ids, **mask), None, []
    for at in range(5):
        step = built(
            encoder_outputs=encoded, **mask, decoder_input_ids=target[:, [at]], past_key_values=cache
        )
        cache = step.past_key_values
        logits.append(step.logits[:, 0])
    heads.values = None
    torch.testing.assert_close(torch.stack(logits, 1), whole, rtol=1e-3, atol=1e-3)
