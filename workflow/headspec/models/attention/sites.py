"""Where a model computes the context vectors of its heads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from headspec.attention import CROSS, DECODER, ENCODER, SELF
from headspec.errors import EncoderError
from headspec.models.attention.interface import Attended, Attention, unwatch, watch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: the number of a layer, in the name of a module inside it
LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")

#: the outermost module of attention in the name of a layer inside it, as "encoder.layer.0.attention" in
#: "encoder.layer.0.attention.output.dense", and "attentions.0" in "attentions.0.out_lin"
OWN_ATTENTION = re.compile(r"(?:[^.]+\.)*?[^.]*att[^.]*(?:\.\d+)?(?=\.)", re.IGNORECASE)
#: what such a module, or one inside it, calls the number of its heads
HEADS = ("num_attention_heads", "num_heads", "num_attn_heads", "n_heads", "n_head")


@dataclass(eq=False)
class Site:
    """A module where the context vectors of heads are separate.

    Attributes
    ----------
    name : of `attention` inside the model
    attention : the module that computes queries, keys, values and context vectors
    output : W_O, the linear layer that takes context vectors; None where something comes between
    own : whether it computes attention without the attention interface, so that W_O is where heads are found
    kind : the kind of attention
    heads, size : number of heads, and the length of a context vector
    rows : the row of each of its calls in a forward pass; several where layers share the module (ALBERT)
    """

    name: str
    attention: nn.Module
    output: nn.Module | None
    own: bool
    kind: str
    heads: int
    size: int
    rows: list[int] = field(default_factory=list)

    def columns(self) -> torch.Tensor:
        """What W_O multiplies the context vectors by, a view (heads, size, hidden)."""
        assert self.output is not None
        weight: Any = self.output.weight
        # inputs are columns of a Linear (out, in), but rows of GPT's Conv1D (in, out)
        return (weight.T if by_columns(self.output) else weight).unflatten(0, (self.heads, self.size))


def by_columns(layer: nn.Module) -> bool:
    """Whether the inputs of a linear layer are the columns of its weight."""
    return type(layer).__name__ != "Conv1D"


def linear(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of a module that multiply by a matrix."""
    for layer in module.modules():
        weight: Any = getattr(layer, "weight", None)
        if weight is not None and weight.dim() == 2 and not isinstance(layer, nn.Embedding):
            yield layer


def stacks(model: PreTrainedModel) -> dict[nn.Module, tuple[str, ...]]:
    """The modules that call layers in a forward pass, and the kinds of their attention."""
    if not model.config.is_encoder_decoder:
        return {model.base_model: (SELF,)}
    return {model.get_encoder(): (ENCODER,), model.get_decoder(): (DECODER, CROSS)}


@dataclass
class _Call:
    """A call of attention, or of a linear layer."""

    module: nn.Module
    context: torch.Tensor  # of attention (batch, tokens, heads, size), of a linear layer its input
    keys: int | None = None  # tokens that are attended to


class _Calls:
    """Watches all modules of a model, and notes its calls in order."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []

    def attend(self, attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        context, weights = attention(*states)
        self.calls.append(_Call(module, context, states[1].shape[-2]))
        return context, weights

    def linear(self, module: nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            self.calls.append(_Call(module, args[0]))

    @contextmanager
    def noted(self, model: nn.Module) -> Iterator[None]:
        with ExitStack() as stack:
            for module in model.modules():
                watch(module, self)
                stack.callback(unwatch, module, self)
                weight = getattr(module, "weight", None)
                if isinstance(weight, torch.Tensor) and weight.dim() == 2:
                    hook = module.register_forward_pre_hook(self.linear, with_kwargs=True)
                    stack.callback(hook.remove)
            yield


class Found(NamedTuple):
    """The sites of a model, in the order of their rows.

    Attributes
    ----------
    before : kind of attention: number of rows before its first
    rows : number of all rows
    """

    sites: list[Site]
    before: dict[str, int]
    rows: int


def find(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Found:
    """The sites that a forward pass of a model calls.

    Raises
    ------
    EncoderError
        Its heads are found neither at the attention interface nor before a W_O.
    """
    noted = _Calls()
    with noted.noted(model), torch.no_grad():
        model(**inputs)
    calls = noted.calls
    names = {module: name for name, module in model.named_modules()}
    found = list(_by_call(model, calls, names))
    kinds = {site.kind for _, site in found}  # some types call it in their decoder alone
    others = _by_structure(model, calls, names, inputs)
    found += [(place, site) for place, site in others if site.kind not in kinds]
    if not found:
        raise EncoderError(
            "it neither calls the attention interface of transformers nor has modules of attention that end "
            "in a linear layer"
        )
    texts = next(value.shape[0] for value in inputs.values() if isinstance(value, torch.Tensor))
    for place, site in found:
        shape = tuple(calls[place].context.shape)
        if shape[0] != texts or (site.own and len(shape) != 3):
            raise EncoderError(f"W_O of '{site.name}' takes {shape}; expected ({texts}, tokens, hidden)")
    order = [kind for kinds in stacks(model).values() for kind in kinds]
    sites: dict[nn.Module, tuple[Site, list[int]]] = {}
    for place, site in found:
        sites.setdefault(site.attention, (site, []))[1].append(place)
    ranked = sorted(sites.values(), key=lambda each: (order.index(each[0].kind), each[1][0]))
    before = _number(ranked, order)
    rows = before.pop("")
    return Found([site for site, _ in ranked], before, rows)


def _by_call(
    model: PreTrainedModel, calls: list[_Call], names: Mapping[nn.Module, str]
) -> Iterator[tuple[int, Site]]:
    """Every call of the attention interface, and its site."""
    decoder = set(model.get_decoder().modules()) if model.config.is_encoder_decoder else set()
    for place, call in enumerate(calls):
        if call.keys is None:
            continue
        if call.context.dim() != 4:
            raise EncoderError(
                f"'{names[call.module]}' returns context vectors of {tuple(call.context.shape)}"
            )
        kind = SELF
        if model.config.is_encoder_decoder:
            across = call.keys != call.context.shape[1]  # sources and targets of the probe differ in length
            kind = ENCODER if call.module not in decoder else CROSS if across else DECODER
        *_, heads, size = call.context.shape
        output = _following(calls[place + 1 :], heads * size)
        yield place, Site(names[call.module], call.module, output, False, kind, heads, size)


def _following(calls: list[_Call], width: int) -> nn.Module | None:
    """The first linear layer, before the next attention, whose input has this width."""
    for call in calls:
        if call.keys is not None:
            return None
        if call.context.shape[-1] == width:
            return call.module
    return None


def _by_structure(
    model: PreTrainedModel,
    calls: list[_Call],
    names: Mapping[nn.Module, str],
    inputs: Mapping[str, Any],
) -> Iterator[tuple[int, Site]]:
    """Every call of a module of attention that computes it itself, and its site: W_O is called last in it."""
    decoder = set(model.get_decoder().modules()) if model.config.is_encoder_decoder else set()
    source = inputs.get(model.main_input_name)  # longer than the target in the probe
    found = (OWN_ATTENTION.match(names[call.module]) for call in calls)
    inside = [match and match[0] for match in found]
    for match, group in itertools.groupby(range(len(calls)), lambda place: inside[place]):
        places = list(group)
        if match is None:
            continue
        attention, last = model.get_submodule(match), calls[places[-1]]
        sizes = (vars(module).get(name) for module in attention.modules() for name in HEADS)
        heads = next((n for n in sizes if isinstance(n, int)), None)
        if heads is None or last.context.shape[-1] % heads:
            continue
        kind = SELF
        if model.config.is_encoder_decoder:
            across = source is not None and any(calls[i].context.shape[1] == source.shape[1] for i in places)
            kind = ENCODER if attention not in decoder else CROSS if across else DECODER
        size = last.context.shape[-1] // heads
        yield places[-1], Site(match, attention, last.module, True, kind, heads, size)


def _number(sites: list[tuple[Site, list[int]]], kinds: list[str]) -> dict[str, int]:
    """Give the calls of sites their rows; returns the first row of each kind, and of none ("").

    A row is the number of a layer in the model, where the names of modules have one: some layers of hybrid
    models have no attention. Else rows are in the order of calls.
    """
    before, rows = {}, 0
    for kind in kinds:
        here = [(site, places) for site, places in sites if site.kind == kind]
        before[kind] = rows
        numbers = [int(found[1]) for site, _ in here if (found := LAYER.search(site.name))]
        ascending = all(a < b for a, b in itertools.pairwise(numbers))
        if ascending and len(numbers) == sum(len(places) for _, places in here):
            for (site, _), number in zip(here, numbers, strict=True):
                site.rows = [rows + number]
            rows += max(numbers, default=-1) + 1
            continue
        order = sorted(place for _, places in here for place in places)
        for site, places in here:
            site.rows = [rows + order.index(place) for place in places]
        rows += len(order)
    return before | {"": rows}
