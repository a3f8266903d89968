"""Attention weights are captured in every architecture, layer by layer."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from transformers.models.bert import modeling_bert
from transformers.models.mpnet import modeling_mpnet

from headspec.errors import EncoderError
from headspec.models.gates import HeadGates
from headspec.models.internals.attention_maps import attention_maps
from support.tiny import ENCODER_DECODERS, HEADS, KINDS, LAYERS, by_family, encoder, examples

CAUSAL = ("gpt2", "openai-gpt", "llama", "qwen2", "qwen3", "mistral")


@pytest.fixture(scope="module", params=by_family())
def model(request):
    return encoder(request.param, attn_implementation="sdpa" if fused(request.param) else "eager")


def fused(kind: str) -> bool:
    return kind not in ("deberta", "deberta-v2", "mpnet", "openai-gpt")  # which have eager attention only


@pytest.fixture(scope="module")
def inputs():
    """Texts of 3 to 14 tokens."""
    batch = examples().batch(np.arange(6))
    assert len(set(batch.attention_mask.sum(1).tolist())) > 3
    return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}


@contextmanager
def gated(model) -> Iterator[HeadGates]:
    gates = HeadGates(model)
    try:
        yield gates
    finally:
        gates.remove()


@torch.no_grad()
def captured(model, inputs, layers: int = LAYERS) -> list[torch.Tensor]:
    maps: dict[int, torch.Tensor] = {}
    with gated(model) as gates, attention_maps(gates, maps.__setitem__):
        model(**inputs)
    assert sorted(maps) == list(range(layers))
    return [maps[layer] for layer in range(layers)]


@torch.no_grad()
def test_maps_are_those_of_an_eager_model(model, inputs):
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    expected = eager(**inputs, output_attentions=True).attentions
    assert len(expected) == LAYERS
    for weights, other in zip(captured(model, inputs), expected, strict=True):
        assert torch.equal(weights, other)


@torch.no_grad()
@pytest.mark.parametrize("kind", by_family(ENCODER_DECODERS))
def test_maps_of_encoder_decoders_are_of_one_kind_after_the_other(kind, inputs):
    model = encoder(kind, attn_implementation="eager")
    given = inputs | {"decoder_input_ids": inputs["input_ids"][:, :5]}
    output = model(**given, output_attentions=True)
    expected = [*output.encoder_attentions, *output.decoder_attentions, *output.cross_attentions]
    model.set_attn_implementation("sdpa")
    maps = captured(model, given, sum(KINDS.values()))
    for weights, other in zip(maps, expected, strict=True):
        torch.testing.assert_close(weights, other)
    assert [weights.shape[2:] for weights in maps] == [(14, 14)] * 3 + [(5, 5)] * 2 + [(5, 14)] * 2


def test_rows_sum_to_one_and_padding_gets_nothing(model, inputs):
    real = inputs["attention_mask"].bool()
    for weights in captured(model, inputs):
        assert weights.shape == (6, HEADS, 14, 14)
        rows = weights.transpose(1, 2)[real]  # (real tokens, heads, tokens)
        torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:2]))
        assert not rows[~real.repeat_interleave(real.sum(1), 0)[:, None].expand_as(rows)].any()
        later = torch.ones(14, 14).triu(1).bool()
        assert weights[..., later].any() != (model.config.model_type in CAUSAL)


@torch.no_grad()
def test_the_model_is_as_before(model, inputs):
    plain = model(**inputs)
    model.train()
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    with (
        pytest.raises(ZeroDivisionError),
        gated(model) as gates,
        attention_maps(gates, lambda layer, weights: 1 / 0),
    ):
        model(**inputs)
    maps = captured(model, inputs)
    assert model.training  # without dropout all the same
    assert all(map(torch.equal, maps, captured(model.eval(), inputs)))
    implementation = "sdpa" if fused(model.config.model_type) else "eager"
    assert model.config._attn_implementation == implementation and not model.training
    output = model(**inputs)
    assert torch.equal(output.last_hidden_state, plain.last_hidden_state)
    assert output.get("attentions") is None and len(maps) == LAYERS
    after = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    added = np.subtract(after, hooks)  # transformers installs its own, once, which do nothing unasked
    assert ((added == 0) | (added == 1)).all()


@torch.no_grad()
def test_no_map_is_held(model, inputs):
    """The model's output has none, and each map is freed before the next."""
    import weakref

    alive, most = [], 0

    def receive(layer, weights):
        nonlocal most
        alive.append(weakref.ref(weights))
        most = max(most, sum(ref() is not None for ref in alive))

    with gated(model) as gates, attention_maps(gates, receive):
        output = model(**inputs)
    assert most == 1 and not any(output.get("attentions") or ())


@torch.no_grad()
def test_gates_act_on_captured_models(model, inputs):
    """A closed head of the first layer changes the maps of later layers, not its own; nor do open gates."""
    plain = captured(model, inputs)
    with gated(model) as gates:
        gates.values = torch.ones(LAYERS, HEADS)
        assert all(map(torch.equal, plain, captured(model, inputs)))
        gates.values[0, 1] = 0
        closed = captured(model, inputs)
    assert torch.equal(plain[0], closed[0])
    assert all((a - b).abs().max() > 1e-5 for a, b in zip(plain[1:], closed[1:], strict=True))


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_an_encoder_that_gives_no_weights_is_refused(kind, inputs, monkeypatch):
    """At the attention interface, and from attention of its own."""
    model = encoder(kind)
    where, name = {
        "bert": (modeling_bert, "eager_attention_forward"),
        "mpnet": (modeling_mpnet.MPNetSelfAttention, "forward"),
    }[kind]
    usual = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *args, **kwargs: (usual(*args, **kwargs)[0], None))
    with pytest.raises(EncoderError, match=f"attention of this {kind} cannot be captured: no weights"):
        captured(model, inputs)


@torch.no_grad()
def test_layers_within_a_group_of_albert_are_counted(inputs):
    maps = []
    model = encoder("albert", inner_group_num=2)
    with gated(model) as gates, attention_maps(gates, lambda layer, weights: maps.append(layer)):
        model(**inputs)
    assert maps == list(range(2 * LAYERS))
