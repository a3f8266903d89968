"""Gated models are copied, checkpointed, gated twice, and have layers of several kinds."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from headspec.errors import EncoderError
from headspec.models.gates import HeadGates
from headspec.models.head_parameters import head_slices
from support.tiny import _SIZE, HEADS, LAYERS, encoder

IDS = torch.arange(5, 29).view(3, 8)
CLOSED = torch.ones(LAYERS, HEADS)
CLOSED[1, 2] = 0


@torch.no_grad()
def states(model, gates: HeadGates | None = None, values: torch.Tensor | None = None) -> torch.Tensor:
    if gates is None:
        return model(IDS).last_hidden_state
    gates.values = values
    try:
        return model(IDS).last_hidden_state
    finally:
        gates.values = None


#: at the attention interface, with attention of its own, and with layers that share a module
@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert"])
def test_a_copy_is_gated_by_the_copy_of_its_gates(kind):
    model = encoder(kind)
    gates = HeadGates(model)
    other, others = copy.deepcopy((model, gates))
    assert others.model is other and {site.attention for site in others.sites} <= {*other.modules()}
    plain, closed = states(model), states(model, gates, CLOSED)
    assert not torch.equal(plain, closed)
    assert torch.equal(states(other, others, CLOSED), closed)
    gates.values = CLOSED
    assert torch.equal(states(other), plain)
    gates.values, others.values = None, CLOSED
    assert torch.equal(states(model), plain)
    others.remove()
    assert torch.equal(states(other), plain)
    assert torch.equal(states(model, gates, CLOSED), closed)
    with torch.no_grad():
        next(iter(others.model.parameters())).zero_()
    assert torch.equal(states(model), plain)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert"])
def test_two_gates_act_and_each_is_undone(kind):
    model = encoder(kind)
    plain = states(model)
    first, second = HeadGates(model), HeadGates(model)
    other = torch.ones(LAYERS, HEADS)
    other[2, 0] = 0
    one, two = states(model, first, CLOSED), states(model, second, other)
    first.values = CLOSED
    both = states(model, second, other)
    first.values = None
    assert torch.equal(both, states(model, first, CLOSED * other))
    assert len({tuple(each.flatten().tolist()) for each in (plain, one, two, both)}) == 4
    first.values = CLOSED
    first.remove()
    assert torch.equal(states(model, second, other), two)
    second.values = other
    second.remove()
    assert torch.equal(states(model), plain)


def gradients(model, gates: HeadGates) -> torch.Tensor:
    gates.values = torch.ones(3, LAYERS, HEADS, requires_grad=True)
    model(input_ids=IDS).last_hidden_state.square().sum().backward()
    found, gates.values = gates.values.grad, None
    return found


@pytest.mark.parametrize("kind", ["bert", "modernbert", "gpt2", "qwen3", "deberta"])
def test_gradients_at_gates_are_the_same_with_checkpoints(kind):
    model = encoder(kind).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    gates = HeadGates(model)
    assert model.training
    plain = gradients(model, gates)
    calls = []
    with gates.edited(lambda row, context: calls.append(row) or context):
        model.gradient_checkpointing_enable()
        torch.testing.assert_close(gradients(model, gates), plain)
    assert len(calls) == 2 * LAYERS and plain.abs().max() > 0  # layers ran again in the backward pass


def test_shared_layers_that_are_called_again_are_refused():
    """As in the backward pass of checkpoints, which ALBERT itself does not take."""
    model = encoder("albert")
    HeadGates(model)
    with pytest.raises(EncoderError, match="Gradient checkpointing cannot be used where layers share a mod"):
        model.encoder(torch.zeros(1, 3, 16), None)


def test_a_body_is_called_without_its_head():
    """Calls of shared layers are counted from where the layers are called."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("albert", **_SIZE, embedding_size=16)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    gates = HeadGates(model)
    with torch.no_grad():
        for _ in range(2):
            model.base_model(IDS)
            model(IDS)
    assert gates.sites[0].rows == list(range(LAYERS))


# --- rows with other numbers of heads, and layers without attention


def test_stacks_with_other_numbers_of_heads():
    model = encoder("bart", decoder_attention_heads=8)
    gates = HeadGates(model)
    assert gates.exists.sum(1).tolist() == [4, 4, 4, 8, 8, 8, 8] and gates.heads == 8
    assert gates.exists[0].tolist() == [True] * 4 + [False] * 4
    assert [site.heads for site in gates.sites] == [4, 4, 4, 8, 8, 8, 8]
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}

    def logits(values: torch.Tensor | None) -> torch.Tensor:
        gates.values = values
        with torch.no_grad():
            return model(**inputs).logits

    plain = logits(None)
    for row, head in np.ndindex(gates.exists.shape):
        values = torch.ones(7, 8)
        values[row, head] = 0
        assert torch.equal(logits(values), plain) != gates.exists[row, head]
    slices = head_slices(gates, "qkvo")
    assert (np.any([part.heads for part in slices], axis=0) == gates.exists).all()


HYBRIDS = {
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "full_attention", "conv"]},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention",
                        "linear_attention"],
        "head_dim": 16, "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", HYBRIDS)
def test_rows_of_hybrid_models_are_their_layers(kind):
    torch.manual_seed(0)
    sizes = _SIZE | {"num_hidden_layers": 5, "num_key_value_heads": 2} | HYBRIDS[kind]
    model = AutoModel.from_config(AutoConfig.for_model(kind, **sizes)).eval()
    gates = HeadGates(model)
    assert gates.exists.tolist() == [[layer in (1, 3)] * HEADS for layer in range(4)]  # up to the last
    assert [site.rows for site in gates.sites] == [[1], [3]]
    assert [gates.site(row).name.split(".")[1] for row in (1, 3)] == ["1", "3"]
    plain = states(model)
    for row in range(4):
        values = torch.ones(4, HEADS)
        values[row] = 0
        assert torch.equal(states(model, gates, values), plain) == (row not in (1, 3))
