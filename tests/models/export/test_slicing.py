"""A model without some heads computes the same as with their gates closed."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.nn.utils import parametrizations, prune, weight_norm

from headspec.errors import ModelError
from headspec.models.export import slicing
from headspec.models.export.keeping import load, save
from headspec.models.export.slicing import remove_heads
from headspec.models.gates import HeadGates
from headspec.models.language import cache_name
from headspec.models.multitask import MultiTask
from support.model_types import any_model
from support.tiers import cases
from support.tiny import HEADS, LAYERS, encoder, examples, multitask

#: kept heads; the sweep over all types has others
KEPT = {
    "some of each layer": np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]], dtype=bool),
    "no layer but one": np.arange(LAYERS)[:, None] == np.full(HEADS, 1),
    "all": np.ones((LAYERS, HEADS), dtype=bool),
    "none": np.zeros((LAYERS, HEADS), dtype=bool),
}
SOME = KEPT["some of each layer"]
IDS = torch.arange(5, 29).view(3, 8)


@torch.no_grad()
def logits(net: MultiTask) -> torch.Tensor:
    """Logits of both tasks, (texts, 3), of padded texts."""
    pooled = net.pool(examples().batch(np.arange(12)))
    return torch.cat([net.logits(task, pooled) for task in net.classes], dim=1)


def numbers(net: MultiTask) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_removed_heads_are_closed_heads_without_their_weights(kind, kept):
    """Layers of ALBERT go on sharing all weights except those of heads."""
    net, size = multitask(kind, {"a": ["x", "y"], "b": None}), 32 // HEADS
    whole, parameters = logits(net), numbers(net)
    with net.gates.at(kept.astype("float32")):
        expected = logits(net)
    net.encoder = remove_heads(net.encoder, ~kept)
    torch.testing.assert_close(logits(net), expected, rtol=0, atol=1e-5)
    assert kept.all() or (expected - whole).abs().max() > 1e-3, "heads matter"
    if kept is SOME:  # a head has `size` rows of W_Q, W_K and W_V, their biases, and `size` columns of W_O
        heads = HEADS * (LAYERS if kind == "bert" else 1)
        assert parameters - numbers(net) == (heads - kept.sum()) * (4 * size * 32 + 3 * size)


def test_heads_that_others_listen_to_cannot_be_removed():
    talking = encoder("deberta", talking_head=True)
    with pytest.raises(ModelError, match="of this deberta cannot be removed: the remaining heads do not"):
        remove_heads(talking, SOME)


@pytest.mark.parametrize(("kind", "lets"), [("bert", False), ("llama", True)])
def test_float64_is_exact_but_where_a_model_rounds_to_float32(kind, lets, monkeypatch):
    """As norms of Llama do: 3e-7 between outputs may then be one rounding."""
    usual = slicing._outputs
    calls = itertools.count()

    def shifted(*args):
        return [states + (next(calls) > 1) * 3e-7 * states.abs().max() for states in usual(*args)]

    model = encoder(kind).double()
    assert remove_heads(model, SOME).dtype == torch.float64
    monkeypatch.setattr(slicing, "_outputs", shifted)
    with nullcontext() if lets else pytest.raises(ModelError, match="the remaining heads do not reproduce"):
        remove_heads(model, SOME)


def halved(layer):
    """A computed weight of no name that torch has."""
    layer.lower = torch.nn.Parameter(layer.weight.detach() / 2)
    del layer._parameters["weight"]
    layer.register_forward_pre_hook(lambda own, _: setattr(own, "weight", own.lower * 2))
    layer.weight = layer.lower * 2


COMPUTED = {
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.3),
    "pruned in rows": lambda layer: prune.ln_structured(layer, "weight", 0.3, 2, 0),
    "weights and biases": lambda layer: prune.random_unstructured(layer, "bias", 0.5),
    "weight norm by hooks": weight_norm,
    "weight norm": parametrizations.weight_norm,
    "spectral norm": parametrizations.spectral_norm,
    "of one's own": halved,
}


@pytest.mark.parametrize("place", ["attention.self.query", "attention.output.dense", "output.dense"])
@pytest.mark.parametrize("change", COMPUTED.values(), ids=COMPUTED)
def test_weights_that_each_pass_computes_are_refused_by_name(change, place):
    """Wherever they are: the heads of layers that were pruned cannot be cut from what is computed."""
    model = encoder("bert")
    change(model.get_submodule(f"encoder.layer.1.{place}"))
    expected = rf"'encoder.layer.1.{place}.(weight|bias)' is computed from [\w.]+.* in each pass"
    with pytest.raises(ModelError, match=f"^heads of this bert cannot be removed: {expected}"):
        remove_heads(model, SOME)


def test_what_was_pruned_for_good_is_as_any_other():
    model = encoder("bert")
    layer = model.encoder.layer[1].attention.self.query
    prune.l1_unstructured(layer, "weight", 0.3)
    prune.remove(layer, "weight")
    with torch.no_grad(), HeadGates(model).closed(SOME):
        expected = model(IDS)[0]
    torch.testing.assert_close(remove_heads(model, SOME)(IDS)[0], expected, rtol=0, atol=1e-5)


def test_a_mask_named_bias_is_not_a_quantised_weight():
    """As GPT-Neo has, of which tokens a token attends to."""
    model = encoder("bert")
    model.encoder.layer[1].attention.register_buffer("bias", torch.ones(8, 8, dtype=torch.bool).tril())
    remove_heads(model, SOME)


def dynamic(model):
    return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


def bytes_of_weights(model):
    layer = model.encoder.layer[0].intermediate.dense
    layer.weight = torch.nn.Parameter(layer.weight.detach().to(torch.int8), requires_grad=False)
    return model


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("quantise", [dynamic, bytes_of_weights])
def test_quantised_weights_are_refused_by_name(quantise):
    expected = (
        "heads of this bert cannot be removed: 'encoder.layer.0.*' is quantised .*; expected a floating-point"
    )
    with pytest.raises(ModelError, match=f"^{expected}"):
        remove_heads(quantise(encoder("bert")), SOME)


def test_adapters_pass_over_a_layer_without_heads_or_are_told_to():
    peft = pytest.importorskip("peft")
    emptied = np.arange(LAYERS)[:, None] == np.full(HEADS, 1)

    def adapted(**settings):
        config = peft.LoraConfig(target_modules=["query"], init_lora_weights=False, **settings)
        return peft.get_peft_model(remove_heads(encoder("bert"), emptied), config).eval()

    with pytest.raises(ValueError, match="layer without heads; adapters leave it out by exclude_modules"):
        adapted()
    made = adapted(exclude_modules=r".*layer\.1\..*")
    with torch.no_grad(), HeadGates(made).closed(SOME & ~emptied):
        expected = made(IDS)[0]
    torch.testing.assert_close(remove_heads(made, SOME & ~emptied)(IDS)[0], expected, rtol=0, atol=1e-5)


def test_another_grid_of_heads_is_refused():
    with pytest.raises(ValueError, match=r"heads: got \(4, 3\), expected \(3, 4\)"):
        remove_heads(encoder("bert"), np.ones((HEADS, LAYERS), dtype=bool))


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_layer_without_heads_has_no_projections(kind, layer, tmp_path):
    """Nor has it in a folder; what is left may be pruned again, and without any heads gates say so."""
    model, emptied = encoder(kind), np.arange(LAYERS)[:, None] == np.full(HEADS, layer)
    save(remove_heads(model, emptied), tmp_path)
    small = load(tmp_path)
    gates = HeadGates(small)
    assert np.array_equal(gates.exists, ~emptied)
    assert model.num_parameters() - small.num_parameters() == 4 * 32 * 32 + 3 * 32  # W_O keeps its bias
    with torch.no_grad(), HeadGates(model).closed(emptied | SOME):
        expected = model(IDS)[0]
    again = remove_heads(small, SOME & ~emptied)
    torch.testing.assert_close(again(IDS)[0], expected, rtol=0, atol=1e-5)
    nothing = remove_heads(small, gates.exists)
    with pytest.raises(ModelError, match="cannot be gated: all of them were removed"):
        HeadGates(nothing)


CAUSAL = [kind for kind, (_, loader, *_) in any_model.KINDS.items() if loader == any_model.CAUSAL]


@torch.no_grad()
@pytest.mark.parametrize(
    "kind", cases([kind for kind in CAUSAL if kind != "olmo2"], any_model.QUICK.__contains__)
)
def test_a_decoder_without_heads_in_its_first_layer_continues_from_its_cache(kind, tmp_path):
    """Which counts tokens by the keys of that layer."""
    model, ids = any_model.model(kind).eval(), any_model.ids()
    gates = HeadGates(model)
    emptied = gates.exists & (np.arange(gates.layers) == np.argmax(gates.exists.any(1)))[:, None]
    with gates.closed(emptied):
        expected = model(ids, use_cache=False).logits
    save(remove_heads(model, emptied), tmp_path)
    small, name = load(tmp_path), cache_name(model)
    first = small(ids[:, :4], use_cache=True)
    rest = small(ids[:, 4:], use_cache=True, **{name: first[name]})
    logits = torch.cat([first.logits, rest.logits], dim=1)
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
