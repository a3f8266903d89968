"""The modules in which the context vectors of heads are computed, and modules in place of projections."""

from __future__ import annotations

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
        # uses only sizes, so that ONNX files do not compute the context (batch, tokens, width)
        return self.bias.expand(context.size(0), context.size(1), -1)


class Grouped(nn.Module):
    """A projection to shared keys or values, (batch, tokens, key heads * size), repeated by query head."""

    def __init__(self, projection: nn.Module, key_heads: Sequence[int]) -> None:
        super().__init__()
        self.projection: Any = projection
        self.keys = max(key_heads) + 1
        self.register_buffer("key_heads", torch.tensor(key_heads, device=self.weight.device))

    @property
    def weight(self) -> torch.Tensor:
        return self.projection.weight

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        by_head = self.projection(states).unflatten(-1, (self.keys, -1))
        return by_head.index_select(-2, self.key_heads).flatten(-2)


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
    rows: list[int] = field(default_factory=list)

    def columns(self) -> torch.Tensor:
        """Return the weights of W_O that multiply the context vectors, a view (heads, size, hidden)."""
        assert self.output is not None
        weight: Any = self.output.weight
        # inputs are columns of a Linear (out, in), but rows of GPT's Conv1D (in, out)
        return (weight.T if by_columns(self.output) else weight).unflatten(0, (self.heads, self.size))


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
    _require_told_apart(model, calls, decoder, {site.kind for _, site in found})
    kinds = {site.kind for _, site in found}  # some types call the interface only in their decoder
    source = inputs.get(model.main_input_name)  # longer than the target in the probe
    for name, attention, numbers, heads in _own_attention(model, calls, names):
        across = source is not None and any(calls[i].context.shape[1:2] == source.shape[1:2] for i in numbers)
        kind_here = kind(attention, across)
        if kind_here not in kinds:
            output, size = calls[numbers[-1]].module, calls[numbers[-1]].context.shape[-1] // heads
            heads = 0 if isinstance(output, Constant) else heads
            found.append((numbers[-1], Site(name, attention, output, True, kind_here, heads, size, None)))
    if not found:
        raise ModelError(
            "it neither calls the attention interface of transformers nor has modules of attention that end "
            "in a linear layer"
        )
    texts = next(len(value) for value in inputs.values() if isinstance(value, torch.Tensor))
    texts *= sequences(inputs)
    for number, site in found:
        shape = tuple(calls[number].context.shape)
        if shape[0] != texts or (site.own and len(shape) != 3):
            raise ModelError(f"W_O of '{site.name}' takes {shape}; expected ({texts}, tokens, hidden)")
    sites, first_rows, rows = _in_rows(found, [kind for kinds in stacks(model).values() for kind in kinds])
    if not (left := [site for site in sites if site.heads]):
        raise ModelError("all of them were removed")
    return left, first_rows, rows


def _require_told_apart(
    model: PreTrainedModel, calls: list[_Call], decoder: set[nn.Module], kinds: set[str]
) -> None:
    """Raise ModelError if cross-attention may have been taken for self-attention of a decoder."""
    lengths = [
        call.context.shape[1] for call in calls if call.keys is not None and call.module not in decoder
    ]
    own = [call.context.shape[1] for call in calls if call.keys is not None and call.module in decoder]
    if DECODER in kinds and CROSS not in kinds and lengths and own and lengths[-1] == own[0]:
        raise ModelError(
            f"sources and targets of `inputs` have as many tokens ({own[0]}), which does not tell "
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
    """Return the calls of attention and of linear layers in a forward pass, in order."""
    calls: list[_Call] = []
    crossing: set[nn.Module] = set()

    def attend(attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        context, weights = attention(*states)
        calls.append(_Call(module, context, states[1].shape[-2], states[1].shape[1], module in crossing))
        return context, weights

    def enter(module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        crossing.discard(module)
        if any(given.get(name) is not None for name in OTHER_STATES):
            crossing.add(module)

    def take(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            calls.append(_Call(module, args[0]))

    with ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            stack.enter_context(watched(module, attend))
            stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
            if is_linear(module) or isinstance(module, Constant):
                stack.callback(module.register_forward_pre_hook(take).remove)
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
