"""Gates of examples, decoders, copies, and layers of several kinds; `test_every_type` has all heads."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from headspec.errors import ModelError
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.importance import gate_gradients
from headspec.models.attention.head_parameters import head_slices
from headspec.models.gates import HeadGates
from headspec.models.language import cache_name
from headspec.models.multitask import MultiTask
from support.tiny import (
    _SIZE,
    CPU,
    ENCODER_DECODERS,
    HEADS,
    KINDS,
    LAYERS,
    by_family,
    encoder,
    examples,
    multitask,
)

IDS = torch.arange(5, 29).view(3, 8)


def closing(row: int, head: int) -> torch.Tensor:
    values = torch.ones(LAYERS, HEADS)
    values[row, head] = 0
    return values


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    return multitask(request.param, {"a": ["x", "y"]})


def test_gradient_equals_a_finite_difference(model):
    texts = examples(2)
    batch = texts.batch(np.arange(2))
    gradients = gate_gradients(model, "a", texts, np.arange(2), CPU)
    step, scale = 1e-2, np.abs(gradients).max()
    for layer, head in [(0, 0), (1, 2), (LAYERS - 1, HEADS - 1)]:
        values, losses = torch.ones(LAYERS, HEADS), []
        for end in (1 + step, 1 - step):
            values[layer, head] = end
            with torch.no_grad(), model.gates.at(values):
                losses.append(model.losses("a", model.pool(batch), batch.labels))
        difference = ((losses[0] - losses[1]) / (2 * step)).numpy()
        np.testing.assert_allclose(gradients[:, layer, head], difference, rtol=0.05, atol=0.02 * scale)


def test_albert_has_gates_for_every_call_of_its_one_layer(model):
    rows = [[0, 1, 2]] if model.encoder.config.model_type == "albert" else [[0], [1], [2]]
    assert [site.rows for site in model.gates.sites] == rows
    assert model.gates.exists.shape == (LAYERS, HEADS) and model.gates.exists.all()


# --- decoders


@pytest.fixture(scope="module", params=by_family(ENCODER_DECODERS))
def translator(request) -> tuple[PreTrainedModel, HeadGates]:
    built = encoder(request.param)
    return built, HeadGates(built)


def test_rows_are_the_layers_of_one_kind_of_attention_after_the_other(translator):
    _, heads = translator
    assert (heads.layers, heads.heads) == (sum(KINDS.values()), HEADS)
    assert heads.first_rows == {"encoder": 0, "decoder": 3, "cross": 5}
    assert [row for site in heads.sites for row in site.rows] == list(range(7))
    names = [site.name for site in heads.sites]
    assert ["decoder" in name for name in names] == [False] * 3 + [True] * 4
    assert ["encoder_attn" in name or "EncDec" in name for name in names] == [False] * 5 + [True] * 2


def test_cross_attention_is_told_by_its_states_where_lengths_are_equal(translator):
    model, heads = translator
    ids = torch.arange(5, 15).view(2, 5)
    again = HeadGates(model, {"input_ids": ids, "decoder_input_ids": ids})
    assert again.first_rows == heads.first_rows
    assert [site.name for site in again.sites] == [site.name for site in heads.sites]


@torch.no_grad()
def test_gates_hold_while_a_decoder_is_called_token_by_token(translator):
    """With a cache, after one call of the encoder, as a text is decoded."""
    built, heads = translator
    source = examples(3).batch(np.arange(3))
    mask, target = {"attention_mask": source.attention_mask}, torch.arange(15).view(3, 5) + 5
    cache, logits, name = None, [], cache_name(built)
    with heads.at(torch.rand(heads.layers, HEADS)):
        whole = built(input_ids=source.input_ids, **mask, decoder_input_ids=target).logits
        encoded = {"encoder_outputs": built.get_encoder()(source.input_ids, **mask)} | mask
        for at in range(5):
            step = built(**encoded, decoder_input_ids=target[:, [at]], **{name: cache})
            cache = step[name]
            logits.append(step.logits[:, 0])
    torch.testing.assert_close(torch.stack(logits, 1), whole, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_a_layer_with_fewer_tokens_takes_the_first_gates_of_tokens(translator):
    built, heads = translator
    source, target = examples(3).batch(np.arange(3)).input_ids, torch.arange(15).view(3, 5) + 5
    values = torch.rand(3, source.shape[1], heads.layers, HEADS)
    found = []
    for tokens in (slice(0), slice(5, None), slice(4, 5)):  # none, those beyond the target, its last
        values[:, tokens, heads.first_rows["decoder"] :] = 0
        with heads.at(values):
            found.append(built(input_ids=source, decoder_input_ids=target).logits)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


# --- copies, several gates, and checkpoints of gradients


@torch.no_grad()
def states(model, gates: HeadGates | None = None, values: torch.Tensor | None = None) -> torch.Tensor:
    if gates is None or values is None:
        return model(IDS).last_hidden_state
    with gates.at(values):
        return model(IDS).last_hidden_state


#: at the attention interface, with attention of its own, and with layers that share a module
@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert"])
def test_a_copy_is_gated_by_the_copy_of_its_gates(kind):
    model, values = encoder(kind), closing(1, 2)
    gates = HeadGates(model)
    other, others = copy.deepcopy((model, gates))
    assert others.model is other and {site.attention for site in others.sites} <= {*other.modules()}
    plain, closed = states(model), states(model, gates, values)
    assert not torch.equal(plain, closed)
    assert torch.equal(states(other, others, values), closed)
    for mine, its, another in ((gates, model, other), (others, other, model)):
        mine.values = values
        assert torch.equal(states(another), plain) and torch.equal(states(its), closed)
        copied = copy.deepcopy((its, mine))
        mine.values = None
        assert torch.equal(states(its), plain) and torch.equal(states(copied[0]), closed)
        copied[1].values = None
    with gates.at(values):
        states(model)
        inside = copy.deepcopy((model, gates))
        assert torch.equal(states(inside[0]), plain)
    assert torch.equal(states(inside[0], inside[1], values), closed)
    assert torch.equal(states(model, gates, values), closed)
    with torch.no_grad():
        next(iter(others.model.parameters())).zero_()
    assert torch.equal(states(model), plain)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert"])
def test_two_gates_act_and_each_is_undone(kind):
    model, values, other = encoder(kind), closing(1, 2), closing(2, 0)
    plain, first, second = states(model), HeadGates(model), HeadGates(model)
    one, two = states(model, first, values), states(model, second, other)
    with first.at(values):
        both = states(model, second, other)
    assert torch.equal(both, states(model, first, values * other))
    assert len({tuple(each.flatten().tolist()) for each in (plain, one, two, both)}) == 4
    first.values = values
    assert torch.equal(states(model, second, other), both)
    first.values = None
    assert torch.equal(states(model, second, other), two)
    assert torch.equal(states(model), plain)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert"])
def test_blocks_may_be_left_in_any_order(kind):
    """The gates of the block that was entered last act, while it is open; what blocks close adds up."""
    model = encoder(kind)
    gates, heads = HeadGates(model), np.eye(LAYERS, HEADS, dtype=bool)
    plain, others = states(model), heads[::-1].copy()
    closed = [states(model, gates, torch.from_numpy(~h).float()) for h in (heads, others, heads | others)]
    for one, two, both in (
        (gates.at(~heads), gates.at(~others), closed[1]),
        (gates.closed(heads), gates.closed(others), closed[2]),
    ):
        _in_any_order(model, one, two, [*closed[:2], both], plain)


def _in_any_order(model, one, two, closed, plain):
    one.__enter__()
    assert torch.equal(states(model), closed[0])
    two.__enter__()
    assert torch.equal(states(model), closed[2])
    one.__exit__(None, None, None)
    assert torch.equal(states(model), closed[1])
    two.__exit__(None, None, None)
    assert torch.equal(states(model), plain)


def test_a_block_in_which_gates_do_not_act_is_an_error():
    """As around a program that was exported before, or a generator that is not run yet."""
    model = encoder("bert")
    program = torch.export.export(model, (IDS,)).module()
    gates = HeadGates(model)
    for run in (lambda: program(IDS), lambda: map(model, [IDS])):
        with (
            pytest.raises(ModelError, match="gates of this bert did not act: nothing in the block called"),
            gates.closed(np.eye(LAYERS, HEADS, dtype=bool)),
        ):
            run()


# --- compiled models


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["called before", "another of its class", "in place", "function"])
@pytest.mark.parametrize("kind", ["bert", "gpt2", "mpnet", "albert"])
def test_gates_act_on_compiled_models(how, kind):
    torch.compiler.reset()
    model, values = encoder(kind), closing(1, 2)
    plain, expected = states(model), states(model, HeadGates(model), values)
    compiled: Any = torch.compile(model, backend="eager")
    if how == "another of its class":
        gates = HeadGates(model)
        states(torch.compile(encoder(kind), backend="eager"))
    elif how == "in place":
        compiled = model
        model.compile(backend="eager")
        states(model)
        gates = HeadGates(model)
    elif how == "function":
        compiled = torch.compile(lambda ids: model(ids), backend="eager")
        states(compiled)
        gates = HeadGates(model)
    else:
        states(compiled)
        gates = HeadGates(compiled)
    assert torch.equal(states(compiled, gates, values), expected)
    assert torch.equal(states(compiled), plain) and not torch.equal(plain, expected)


@pytest.mark.thorough
def test_a_model_that_was_compiled_and_called_is_scored():
    torch.compiler.reset()
    model = encoder("gpt2")

    def scores() -> np.ndarray:
        return head_importance(
            model, [{"input_ids": IDS}], lambda outputs, _: outputs[0].square().mean((1, 2))
        )

    expected = scores()
    model.compile(backend="eager")
    states(model)
    np.testing.assert_array_equal(scores(), expected)
    assert expected.min() > 0


def test_gates_are_not_set_in_a_compiled_function():
    torch.compiler.reset()  # earlier tests may have compiled so often that functions run as written
    gates = HeadGates(encoder("bert"))

    @torch.compile(backend="eager")
    def gated() -> torch.Tensor:
        return states(gates.model, gates, closing(1, 2))

    try:
        found = gated()
    except ModelError as error:
        assert "in a function that is compiled; compile the model instead" in str(error)
    else:  # torch runs it as it is written, as after many compilations
        assert torch.equal(found, states(gates.model, gates, closing(1, 2)))
        assert not torch.equal(found, states(gates.model, gates, torch.ones(LAYERS, HEADS)))


@pytest.mark.parametrize("kind", ["bert", "modernbert", "gpt2", "qwen3", "deberta"])
def test_gradients_at_gates_are_the_same_with_checkpoints(kind):
    model = encoder(kind).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    gates, calls = HeadGates(model), []
    assert model.training

    def gradients() -> torch.Tensor:
        values = torch.ones(3, LAYERS, HEADS, requires_grad=True)
        with gates.at(values):
            model(input_ids=IDS).last_hidden_state.square().sum().backward()
        assert values.grad is not None
        return values.grad

    plain = gradients()
    with gates.edited(lambda row, context: calls.append(row) or context):
        model.activation_checkpointing_enable()
        torch.testing.assert_close(gradients(), plain)
    assert len(calls) == 2 * LAYERS and plain.abs().max() > 0  # layers ran again in the backward pass


def test_shared_layers_are_counted_from_where_they_are_called():
    """A body may be called without its head; calls beyond a pass, as of checkpoints, are refused."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("albert", **_SIZE, embedding_size=16)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    gates = HeadGates(model)
    assert gates.sites[0].rows == list(range(LAYERS))
    with gates.at(torch.ones(LAYERS, HEADS)):
        for body in (model.base_model, model, model.base_model, model):
            body(IDS)
        with pytest.raises(ModelError, match="Gradient checkpointing cannot be used where layers share a "):
            model.base_model.encoder(torch.zeros(1, 3, 16), None)


# --- rows with other numbers of heads, and layers without attention


@torch.no_grad()
def test_stacks_with_other_numbers_of_heads():
    model = encoder("bart", decoder_attention_heads=8)
    gates = HeadGates(model)
    numbers = [4, 4, 4, 8, 8, 8, 8]
    assert [site.heads for site in gates.sites] == numbers and gates.heads == 8
    assert (gates.exists == (np.arange(8) < np.array(numbers)[:, None])).all()
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    plain = model(**inputs).logits
    for row, head in np.ndindex(gates.exists.shape):
        values = torch.ones(7, 8)
        values[row, head] = 0
        with gates.at(values):
            assert torch.equal(model(**inputs).logits, plain) != gates.exists[row, head]
    slices = head_slices(gates, "qkvo")
    assert (np.any([part.heads for part in slices], axis=0) == gates.exists).all()


def test_rows_of_hybrid_models_are_their_layers():
    model = encoder("lfm2")  # two of whose five layers have attention
    gates = HeadGates(model)
    assert gates.exists.tolist() == [[layer in (1, 3)] * HEADS for layer in range(4)]  # up to the last
    assert [site.rows for site in gates.sites] == [[1], [3]]
    assert [gates.site(row).name.split(".")[1] for row in (1, 3)] == ["1", "3"]
    plain = states(model)
    for row in range(4):
        values = torch.ones(4, HEADS)
        values[row] = 0
        assert torch.equal(states(model, gates, values), plain) == (row not in (1, 3))
