"""Models that HeadGates refuses, because gates would not act on heads."""

import re

import pytest
import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel

from headspec.errors import ModelError
from headspec.models.attention import calls
from headspec.models.gates import HeadGates
from support.tiny import encoder


def refused(model: PreTrainedModel, reason: str) -> None:
    """The refusal names the type and the reason, and leaves the model as it was."""
    weights = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(ModelError, match=f"this {model.config.model_type} cannot be gated: .*{reason}"):
        HeadGates(model)
    assert all(map(torch.equal, weights, model.parameters()))


@pytest.mark.parametrize(
    ("kind", "wrong", "reason"),
    [
        ("mpnet", r"encoder\.layer\.\d+", "W_O"),
        ("openai-gpt", r"h\.\d+", "W_O"),
        ("deberta", "nothing", "neither calls the attention interface"),
        ("convbert", calls.OWN_ATTENTION.pattern, "W_O"),
    ],
)
def test_another_layer_than_the_output_projection_is_refused(monkeypatch, kind, wrong, reason):
    """Comparison with zeroed weights is not enough, because it succeeds for every linear layer."""
    monkeypatch.setattr(calls, "OWN_ATTENTION", re.compile(wrong))
    refused(encoder(kind), reason)


def plain(module, query, key, value, *args, **kwargs):
    weights = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
    return (weights @ value).transpose(1, 2), weights


def mixing_heads(module, query, key, value, *args, **kwargs):
    """Attention in which one head also sees the values of the next."""
    return plain(module, query, key, value + 0.1 * value.roll(1, 1))


def mixing_slightly(module, query, key, value, *args, **kwargs):
    """Attention in which a head sees others by less than a float can hold beside its own values."""
    return plain(module, query, key, value + 1e-30 * value.mean(1, keepdim=True))


def of_others(module, query, key, value, *args, **kwargs):
    """Attention in which heads see the values of another one instead of their own."""
    return plain(module, query, key, value.flip(1))


def flat(*args, **kwargs):
    """Attention in which heads cannot be told apart."""
    context, weights = plain(*args, **kwargs)
    return context.flatten(-2), weights


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (mixing_heads, "is computed from the values of another"),
        (mixing_slightly, "is computed from the values of another"),
        (of_others, "is computed from the values of another"),
        (flat, "returns context vectors of"),
        (plain, None),
    ],
)
def test_attention_that_is_not_by_heads_is_refused(monkeypatch, function, reason):
    monkeypatch.setitem(AttentionInterface._global_mapping, "own", function)
    model = encoder("bert")
    model.set_attn_implementation("own")
    if reason:
        refused(model, reason)
    else:
        assert HeadGates(model).exists.all()


def test_a_model_that_ignores_its_heads_is_refused():
    model = encoder("bert")
    model.encoder.layer[2].attention.output.dense.weight.data.zero_()
    refused(model, "closing head 3 of 'encoder.layer.2.attention.self' changes nothing")


def test_a_model_that_computes_eager_attention_by_itself_is_refused(monkeypatch):
    """Its gates would act as it is loaded, and not where its attention weights are asked for."""
    model = encoder("bert", attn_implementation="sdpa")
    attention = model.encoder.layer[1].attention.self
    forward = attention.forward

    def by_itself(states: torch.Tensor, *args, **kwargs):
        if model.config._attn_implementation != "eager":
            return forward(states, *args, **kwargs)
        query, key, value = (
            layer(states).unflatten(-1, (4, -1)).transpose(1, 2)
            for layer in (attention.query, attention.key, attention.value)
        )
        context, weights = plain(attention, query, key, value)
        return context.flatten(-2), weights

    attention.forward = by_itself
    refused(model, "without fused attention, gates of 'encoder.layer.1.attention.self' do not act")


def test_attention_beside_the_interface_that_has_another_way_takes_it():
    """GPT-2 can compute eager attention by itself; so it does not when it is gated."""
    model = encoder("gpt2", reorder_and_upcast_attn=True, attn_implementation="eager")
    ids = torch.arange(5, 21).view(2, 8)
    with torch.no_grad():
        before = model(ids).last_hidden_state
        HeadGates(model)
        torch.testing.assert_close(model(ids).last_hidden_state, before)


def test_rounding_that_differs_without_fused_attention_costs_no_weights():
    """In half precision, zeroed columns are compared in passes of the same attention."""
    model = encoder("bert", attn_implementation="sdpa").to(torch.bfloat16)
    assert all(site.output is not None for site in HeadGates(model).sites)


def test_something_between_the_heads_and_their_weights_leaves_gates_and_no_weights():
    """A norm over all heads: a closed head is not the same as its columns of W_O at zero."""
    model = encoder("bert")
    for layer in model.encoder.layer:
        layer.attention.output.dense = nn.Sequential(nn.LayerNorm(32), layer.attention.output.dense)
    gates = HeadGates(model)
    assert [site.output for site in gates.sites] == [None] * 3


def test_an_unknown_input_is_named_and_a_module_that_is_no_model_refused():
    model = encoder("bert")
    model.main_input_name = "spectrum"
    refused(model, "its main input is spectrum; expected `inputs`")
    assert HeadGates(model, {"input_ids": torch.arange(5, 21).view(2, 8)}).exists.all()
    with pytest.raises(TypeError, match="model: got Linear, expected a model of transformers"):
        HeadGates(nn.Linear(2, 2))
