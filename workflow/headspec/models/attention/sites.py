"""The modules in which the context vectors of heads are computed, and modules in place of projections."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.head_arrays import CROSS, DECODER, ENCODER, SELF
from headspec.models.attention.interface import Attended, Attention, watched
from headspec.models.attention.probe_inputs import sequences

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Constant(nn.Module):
    """W_O of a layer without heads: its bias for every token."""

    def __init__(self, projection: nn.Module, hidden: int) -> None:
        super().__init__()
        weight: Any = projection.weight
        bias = getattr(projection, "bias", None)
        self.bias = nn.Parameter(weight.new_zeros(hidden)) if bias is None else bias
        #: for code that initialises the weights of projections by name: there are none, and none are needed
        self.weight = torch.empty(hidden)  # as long as the bias, which tying would cut or pad
        vars(self.weight)["_is_hf_initialized"] = True

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        """Return the bias for each token of context vectors, (batch, tokens, hidden)."""
        # uses only sizes, so that ONNX files do not compute the context (batch, tokens, width)
        return self.bias.expand(*context.shape[:-1], -1)


class Grouped(nn.Module):
    """A projection to shared keys or values, (batch, tokens, key heads * size), repeated by query head.

    A projection to queries, keys and values has as many parts for each: `key_heads` then counts all of them.
    """

    def __init__(self, projection: nn.Module, key_heads: Sequence[int]) -> None:
        super().__init__()
        self.projection: Any = projection
        self.keys = max(key_heads) + 1
        self.register_buffer("key_heads", torch.tensor(key_heads, device=self.weight.device))

    @property
    def weight(self) -> torch.Tensor:
        """The weight of the projection, (key heads * size, hidden)."""
        return self.projection.weight

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return keys or values, (batch, tokens, heads * size), from states (batch, tokens, hidden)."""
        # (batch, tokens, key heads, size)
        by_head = self.projection(states).unflatten(-1, (self.keys, -1))
        return by_head.index_select(-2, self.key_heads).flatten(-2)


#: what some models fold into the batch of an attention, on which gates of examples cannot act
FOLDED = "windows, frames, channels or images"
#: the number of a layer, in the name of a module inside it
LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
#: the outermost module of attention in the name of a layer inside it: "encoder.layer.0.attention" in
#: "encoder.layer.0.attention.output.dense", and "attentions.0" in "attentions.0.out_lin"
OWN_ATTENTION = re.compile(r"(?:[^.]+\.)*?[^.]*att[^.]*(?:\.\d+)?(?=\.)", re.IGNORECASE)
#: the number of heads that `remove_heads` leaves in such a module, whose code may keep the old one
KEPT = "kept_heads"
#: names of the number of heads in such a module, or one inside it
HEADS = (KEPT, "num_attention_heads", "num_heads", "num_attn_heads", "n_heads", "n_head")
#: arguments of cross-attention for the states of the other stack
OTHER_STATES = ("key_value_states", "encoder_hidden_states")


@dataclass(eq=False)
class Site:
    """A module whose heads are gated.

    Attributes
    ----------
    name : name of `attention` inside the model
    attention : the module that computes queries, keys, values and context vectors
    output : W_O, the linear layer that takes context vectors; None if something comes between
    own : whether it computes attention without the attention interface; heads are then gated before W_O
    kind : the kind of attention
    heads, size : number of heads, 0 if all were removed, and the length of a context vector
    keys : number of heads of keys and values, None if it is not seen
    folded : whether its batch is not the one of examples: `FOLDED` are in it
    rows : the row of each of its calls in a forward pass; several if layers share the module (ALBERT)
    """

    name: str
    attention: nn.Module
    output: nn.Module | None
    own: bool
    kind: str
    heads: int
    size: int
    keys: int | None
    folded: bool = False
    rows: list[int] = field(default_factory=list)

    def matrices(self) -> list[nn.Module]:
        """Return the linear layers that take the context vectors: W_O, and those of adapters beside it."""
        assert self.output is not None
        inside = [layer for layer in self.output.modules() if layer is not self.output and is_linear(layer)]
        width = self.heads * self.size
        return [layer for layer in inside if _inputs_first(layer).shape[0] == width] or [self.output]

    def columns(self, layer: nn.Module | None = None) -> torch.Tensor:
        """Return the weights that multiply the context vectors, a view (heads, size, outputs).

        They are of W_O itself, or of another one of its `matrices`.
        """
        return _inputs_first(layer or self.matrices()[0]).unflatten(0, (self.heads, self.size))


def _inputs_first(layer: nn.Module) -> torch.Tensor:
    """Return a view (inputs, outputs) of the weights of a linear layer."""
    weight: Any = layer.weight
    # inputs are columns of a Linear (out, in), but rows of GPT's Conv1D (in, out)
    return weight.T if by_columns(layer) else weight


def by_columns(layer: nn.Module) -> bool:
    """Return whether the inputs of a linear layer are the columns of its weight."""
    return type(layer).__name__ != "Conv1D"


def is_linear(layer: nn.Module) -> bool:
    """Return whether a layer multiplies by a matrix; embeddings have a matrix but do not."""
    weight = getattr(layer, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.dim() == 2 and not isinstance(layer, nn.Embedding)


def stacks(model: PreTrainedModel) -> dict[nn.Module, tuple[str, ...]]:
    """Return the modules that call layers in a forward pass, and their kinds of attention."""
    if not model.config.is_encoder_decoder:
        return {model.base_model: (SELF,)}
    return {model.get_encoder(): (ENCODER,), model.get_decoder(): (DECODER, CROSS)}


def find(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[list[Site], dict[str, int], int]:
    """Return the sites that a forward pass calls, each kind of attention's first row, and the number of rows.

    Sites are in the order of rows. ModelError if heads are found neither at the interface nor before a W_O.
    """
    calls = _calls(model, inputs)
    names = {module: name for name, module in model.named_modules()}
    decoder = set(model.get_decoder().modules()) if model.config.is_encoder_decoder else set()

    def kind(attention: nn.Module, across: bool) -> str:
        if not model.config.is_encoder_decoder:
            return SELF
        return ENCODER if attention not in decoder else CROSS if across else DECODER

    found = []
    for number, call in enumerate(calls):
        if call.keys is None:
            continue
        if call.context.dim() != 4:
            shape = tuple(call.context.shape)
            raise ModelError(f"'{names[call.module]}' returns context vectors of {shape}")
        *_, heads, size = call.context.shape
        # sources and targets of the probe differ in length
        across = call.across or call.keys != call.context.shape[1]
        output = _following(calls[number + 1 :], heads * size)
        heads = 0 if output is not None and isinstance(output, Constant) else heads
        site = Site(
            names[call.module], call.module, output, False, kind(call.module, across), heads, size, call.heads
        )
        found.append((number, site))
    # some types call the interface only in their decoder, or in one of their towers
    towers = {(site.kind, _tower(site.name)) for _, site in found}
    kinds, seen = {site.kind for _, site in found}, {site.attention for _, site in found}
    source = inputs.get(model.main_input_name)
    for name, attention, numbers, heads in _own_attention(model, calls, names):
        last = calls[numbers[-1]]
        lengths = {calls[i].context.shape[1] for i in numbers} - {last.context.shape[1]}
        across = last.across or (source is not None and source.dim() > 1 and source.shape[1] in lengths)
        kind_here = kind(attention, across)
        tower = _tower(name)
        apart = kind_here not in kinds or (tower and (kind_here, tower) not in towers)
        if apart and seen.isdisjoint(attention.modules()):
            output, size = last.module, last.context.shape[-1] // heads
            heads = 0 if isinstance(output, Constant) else heads
            found.append((numbers[-1], Site(name, attention, output, True, kind_here, heads, size, None)))
    if not found:
        raise ModelError(
            "it neither calls the attention interface of transformers nor has modules of attention that end "
            "in a linear layer"
        )
    _require_told_apart(found, calls)
    for number, site in found:
        site.folded = _is_folded(site, tuple(calls[number].context.shape), model, inputs)
    sites, first_rows, rows = _in_rows(found, [kind for kinds in stacks(model).values() for kind in kinds])
    if not (left := [site for site in sites if site.heads]):
        raise ModelError("all of them were removed")
    return left, first_rows, rows


def _tower(name: str) -> str:
    """Return the part of a name before a layer's number; empty if it has none."""
    return LAYER.split(name)[0] if LAYER.search(name) else ""


def _is_folded(site: Site, shape: tuple[int, ...], model: PreTrainedModel, inputs: Mapping[str, Any]) -> bool:
    """Return whether a site's batch is another than that of examples; ModelError if it is not the first."""
    texts = next(len(value) for value in inputs.values() if isinstance(value, torch.Tensor))
    texts *= sequences(inputs)
    main = inputs.get(model.main_input_name)
    tokens_first = main is not None and main.dim() == 2 and shape[:2] == (main.shape[1], texts)
    if (tokens_first and shape[0] != texts) or len(shape) < 3:
        raise ModelError(f"W_O of '{site.name}' takes {shape}; expected ({texts}, tokens, hidden)")
    return shape[0] != texts


def _require_told_apart(sites: list[tuple[int, Site]], calls: list[_Call]) -> None:
    """Raise ModelError if cross-attention may have been taken for self-attention of a decoder."""
    encoder, decoder, cross = (
        [calls[number].context.shape[1] for number, site in sites if site.kind == kind]
        for kind in (ENCODER, DECODER, CROSS)
    )
    if decoder and encoder and not cross and encoder[-1] == decoder[0]:
        raise ModelError(
            f"sources and targets of `inputs` have as many tokens ({decoder[0]}), which does not tell "
            "cross-attention from self-attention; expected targets of another length"
        )


@dataclass
class _Call:
    """A call of attention, or of a layer that may be W_O."""

    module: nn.Module
    context: torch.Tensor  # (batch, tokens, heads, size), or the input of a layer
    keys: int | None = None  # tokens that are attended to
    heads: int | None = None  # of keys and values
    across: bool = False  # whether the call has states of another stack


def _calls(model: PreTrainedModel, inputs: Mapping[str, Any]) -> list[_Call]:
    """Return the calls of attention and of linear layers in a forward pass, in order.

    Layers inside a linear layer, such as those of an adapter, are a part of it.
    """
    calls: list[_Call] = []
    crossing: set[nn.Module] = set()
    layers = [module for module in model.modules() if is_linear(module) or isinstance(module, Constant)]
    parts = {part for layer in layers for part in layer.modules() if part is not layer}
    inside = {
        module: model.get_submodule(match[0])
        for name, module in model.named_modules()
        if (match := OWN_ATTENTION.match(name))
    }

    def attend(attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        context, weights = attention(*states)
        calls.append(_Call(module, context, states[1].shape[-2], states[1].shape[1], module in crossing))
        return context, weights

    def enter(places: list[tuple[int, str]], module: nn.Module, args: Any, given: dict[str, Any]) -> None:
        crossing.discard(module)
        tensors = (args[place] if place < len(args) else given.get(name) for place, name in places)
        if any(states is not None for states in tensors):
            crossing.add(module)

    def take(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            calls.append(_Call(module, args[0], across=inside.get(module) in crossing))

    with ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            stack.enter_context(watched(module, attend))
            names = inspect.signature(module.forward).parameters
            places = [(place, name) for place, name in enumerate(names) if name in OTHER_STATES]
            hook = functools.partial(enter, places)
            stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
        for layer in layers:
            if layer not in parts:
                stack.callback(layer.register_forward_pre_hook(take).remove)
        model(**inputs)
    return calls


def _following(calls: list[_Call], width: int) -> nn.Module | None:
    """Return the first layer, before the next attention, whose input has this width."""
    layers = itertools.takewhile(lambda call: call.keys is None, calls)
    return next((call.module for call in layers if call.context.shape[-1] == width), None)


def _own_attention(
    model: PreTrainedModel, calls: list[_Call], names: Mapping[nn.Module, str]
) -> Iterator[tuple[str, nn.Module, list[int], int]]:
    """Yield modules that compute attention themselves: name, module, numbers of its calls, W_O; heads."""
    matches = [OWN_ATTENTION.match(names[call.module]) for call in calls]
    inside = [match and match[0] for match in matches]
    for name, group in itertools.groupby(range(len(calls)), lambda number: inside[number]):
        if name is None:
            continue
        numbers, attention = list(group), model.get_submodule(name)
        sizes = (vars(module).get(key) for module in attention.modules() for key in HEADS)
        heads = next((n for n in sizes if isinstance(n, int)), None)
        if heads and calls[numbers[-1]].context.shape[-1] % heads == 0:
            yield name, attention, numbers, heads


def _in_rows(found: list[tuple[int, Site]], kinds: list[str]) -> tuple[list[Site], dict[str, int], int]:
    """Assign rows to the calls of sites; return the same as `find`.

    A row is a layer's number in the names of modules (some layers of hybrid models have no attention), else a
    call's.
    """
    calls: dict[nn.Module, tuple[Site, list[int]]] = {}
    for number, site in found:
        calls.setdefault(site.attention, (site, []))[1].append(number)
    ordered = sorted(calls.values(), key=lambda site: site[1][0])
    sites, first_rows, rows = [], {}, 0
    for kind in kinds:
        here = [(site, numbers) for site, numbers in ordered if site.kind == kind]
        sites += [site for site, _ in here]
        first_rows[kind] = rows
        layers = [int(match[1]) for site, _ in here if (match := LAYER.search(site.name))]
        ascending = all(a < b for a, b in itertools.pairwise(layers))
        if ascending and len(layers) == sum(len(numbers) for _, numbers in here):
            for (site, _), layer in zip(here, layers, strict=True):
                site.rows = [rows + layer]
            rows += max(layers, default=-1) + 1
            continue
        order = sorted(number for _, numbers in here for number in numbers)
        for site, numbers in here:
            site.rows = [rows + order.index(number) for number in numbers]
        rows += len(order)
    return sites, first_rows, rows
