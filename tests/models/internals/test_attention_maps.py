"""Attention weights are captured in every architecture, layer by layer."""

import copy
import weakref

import numpy as np
import pytest
import torch
from transformers.models.bert import modeling_bert
from transformers.models.mpnet import modeling_mpnet

from headspec.errors import ModelError
from headspec.models.attention.gating import Receiver
from headspec.models.gates import HeadGates
from headspec.models.internals.activations import attention_maps
from support.tiny import ENCODER_DECODERS, HEADS, LAYERS, by_family, encoder, examples

EAGER = ("deberta", "deberta-v2", "mpnet", "openai-gpt")  # which have no other attention
CAUSAL = ("gpt2", "openai-gpt", "llama", "qwen2", "qwen3", "mistral")


@pytest.fixture(scope="module", params=by_family())
def model(request):
    return encoder(request.param, attn_implementation="eager" if request.param in EAGER else "sdpa")


@pytest.fixture(scope="module")
def inputs():
    """Texts of 3 to 14 tokens."""
    batch = examples().batch(np.arange(6))
    assert len(set(batch.attention_mask.sum(1).tolist())) > 3
    return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}


@torch.no_grad()
def captured(model, inputs, receive: Receiver | None = None) -> list[torch.Tensor]:
    """The maps of all rows, unless they are for `receive`."""
    maps: dict[int, torch.Tensor] = {}
    gates = HeadGates(model)
    with attention_maps(gates, receive or maps.__setitem__):
        model(**inputs)
    assert len(maps) == gates.layers
    return [maps[layer] for layer in range(gates.layers)]


@torch.no_grad()
def test_maps_are_those_of_an_eager_model(model, inputs):
    """Rows of real tokens sum to one, padding and, in a decoder, later tokens get nothing."""
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    expected, real = eager(**inputs, output_attentions=True).attentions, inputs["attention_mask"].bool()
    for weights, other in zip(captured(model, inputs), expected, strict=True):
        assert torch.equal(weights, other) and weights.shape == (6, HEADS, 14, 14)
        rows = weights.transpose(1, 2)[real]  # (real tokens, heads, tokens)
        torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:2]))
        assert not rows[~real.repeat_interleave(real.sum(1), 0)[:, None].expand_as(rows)].any()
        assert weights.triu(1).any() != (model.config.model_type in CAUSAL)


@torch.no_grad()
@pytest.mark.parametrize("kind", by_family(ENCODER_DECODERS))
def test_maps_of_encoder_decoders_are_of_one_kind_after_the_other(kind, inputs):
    model = encoder(kind, attn_implementation="eager")
    given = inputs | {"decoder_input_ids": inputs["input_ids"][:, :5]}
    output = model(**given, output_attentions=True)
    expected = [*output.encoder_attentions, *output.decoder_attentions, *output.cross_attentions]
    model.set_attn_implementation("sdpa")
    maps = captured(model, given)
    for weights, other in zip(maps, expected, strict=True):
        torch.testing.assert_close(weights, other)
    assert [weights.shape[2:] for weights in maps] == [(14, 14)] * 3 + [(5, 5)] * 2 + [(5, 14)] * 2


def hooks(model) -> list[int]:
    return [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]


@torch.no_grad()
def test_the_model_is_as_before(model, inputs):
    """Also after an error; it trains as before, but maps are without dropout."""
    plain, before = model(**inputs), hooks(model)
    model.train()
    with pytest.raises(ZeroDivisionError):
        captured(model, inputs, lambda layer, weights: 1 / 0)
    maps = captured(model, inputs)
    assert model.training
    assert all(map(torch.equal, maps, captured(model.eval(), inputs)))
    assert model.config._attn_implementation == ("eager" if model.config.model_type in EAGER else "sdpa")
    assert not model.training
    output = model(**inputs)
    assert torch.equal(output.last_hidden_state, plain.last_hidden_state) and not output.get("attentions")
    # transformers installs hooks of its own, once, which do nothing unasked
    assert {*np.subtract(hooks(model), before)} <= {0, 1}


@torch.no_grad()
def test_no_map_is_held(model, inputs):
    """The model's output has none, and each map is freed before the next."""
    alive, most = [], 0

    def receive(layer, weights):
        nonlocal most
        alive.append(weakref.ref(weights))
        most = max(most, sum(ref() is not None for ref in alive))

    gates = HeadGates(model)
    with attention_maps(gates, receive):
        output = model(**inputs)
    assert most == 1 and not any(output.get("attentions") or ())


@torch.no_grad()
def test_gates_act_on_captured_models(model, inputs):
    """A closed head of the first layer changes the maps of later layers, not its own; nor do open gates."""
    plain, gates, values = captured(model, inputs), HeadGates(model), torch.ones(LAYERS, HEADS)
    with gates.at(values):
        assert all(map(torch.equal, plain, captured(model, inputs)))
    values[0, 1] = 0
    with gates.at(values):
        closed = captured(model, inputs)
    assert torch.equal(plain[0], closed[0])
    assert all((a - b).abs().max() > 1e-5 for a, b in zip(plain[1:], closed[1:], strict=True))


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_attention_that_gives_no_weights(kind, inputs, monkeypatch):
    """At the attention interface they are computed by one-hot values; attention of its own is refused."""
    model = encoder(kind)
    expected = captured(model, inputs)
    where, name = {
        "bert": (modeling_bert, "eager_attention_forward"),
        "mpnet": (modeling_mpnet.MPNetSelfAttention, "forward"),
    }[kind]
    usual = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *args, **kwargs: (usual(*args, **kwargs)[0], None))
    if kind == "bert":
        torch.testing.assert_close(captured(model, inputs), expected)
        return
    with pytest.raises(ModelError, match=f"attention of this {kind} cannot be captured: no weights"):
        captured(model, inputs)


@torch.no_grad()
def test_layers_within_a_group_of_albert_are_counted(inputs):
    assert len(captured(encoder("albert", inner_group_num=2), inputs)) == 2 * LAYERS
