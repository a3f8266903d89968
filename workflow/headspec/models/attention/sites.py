"""The modules in which the context vectors of heads are computed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.head_arrays import CROSS, DECODER, ENCODER, SELF
from headspec.models.attention.calls import Call, following, own_attention
from headspec.models.attention.parallel import Division, division
from headspec.models.attention.probe_inputs import sequences
from headspec.models.attention.projections import Constant, inputs_first, is_linear, is_plain

if TYPE_CHECKING:
    from transformers import PreTrainedModel


#: what some models fold into the batch dimension of attention, where gates per example cannot act
FOLDED = "windows, frames, channels or images"
#: the number of a layer, in the name of a module inside it
LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


@dataclass(eq=False)
class Site:
    """A module whose heads are gated.

    Attributes
    ----------
    name : name of `attention` inside the model
    attention : the module that computes queries, keys, values and context vectors
    output : W_O, the linear layer that takes context vectors; None if another operation comes between
    own : whether it computes attention without the attention interface; heads are then gated before W_O
    kind : the kind of attention
    heads, size : number of heads, 0 if all were removed, and the length of a context vector
    keys : number of heads of keys and values, None if unknown
    division : processes that each compute some of the heads, None if each computes all
    folded : whether its batch dimension also holds `FOLDED`
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
    division: Division | None = None
    folded: bool = False
    rows: list[int] = field(default_factory=list)

    @property
    def seen(self) -> bool:
        """Whether the weights that multiply context vectors are known: floats, not packed or divided."""
        layers = filter(is_linear, self.output.modules()) if self.output is not None else ()
        return self.output is not None and all(is_plain(layer.weight) for layer in layers)

    def part(self, whole: torch.Tensor, dim: int) -> torch.Tensor:
        """Return the heads that this process computes, of all heads, which are dimension `dim`."""
        return self.division.part(whole, dim) if self.division else whole

    def whole(self, part: torch.Tensor, dim: int) -> torch.Tensor:
        """Return all heads from those that each process computes, which are dimension `dim`."""
        return self.division.whole(part, dim) if self.division else part

    def matrices(self) -> list[nn.Module]:
        """Return the linear layers that take the context vectors: W_O and its adapters."""
        assert self.output is not None
        inside = [layer for layer in self.output.modules() if layer is not self.output and is_linear(layer)]
        width = self.heads * self.size
        return [layer for layer in inside if inputs_first(layer).shape[0] == width] or [self.output]

    def columns(self, layer: nn.Module | None = None) -> torch.Tensor:
        """Return the weights that multiply the context vectors, a view (heads, size, outputs).

        They are those of W_O or, if given, of `layer`, which is also in `matrices`.
        """
        matrix = inputs_first(layer or self.matrices()[0])
        columns: torch.Tensor = matrix.unflatten(0, (self.heads, self.size))
        return columns


def stacks(model: PreTrainedModel) -> dict[nn.Module, tuple[str, ...]]:
    """Return the modules that call layers in a forward pass, and their kinds of attention."""
    if not model.config.is_encoder_decoder:
        return {model.base_model: (SELF,)}
    return {model.get_encoder(): (ENCODER,), model.get_decoder(): (DECODER, CROSS)}


def find(
    model: PreTrainedModel, inputs: Mapping[str, Any], calls: list[Call]
) -> tuple[list[Site], dict[str, int], int]:
    """Return the sites of a pass, the first row of each kind of attention, and the row count.

    `calls` are those of a pass with these `inputs`, as from `calls_of`.
    Sites are in the order of rows, without those whose heads were all removed. Raises ModelError if none is
    left, or it is unclear which heads a site computes, for which examples, or with which kind of attention.
    """
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
        output = following(calls[number + 1 :], heads * size)
        over = division(model, names[call.module], output, heads * size)
        parts = over.mesh.size() if over else 1
        heads *= parts
        heads = 0 if output is not None and isinstance(output, Constant) else heads
        here, keys = kind(call.module, across), call.heads and call.heads * parts
        site = Site(names[call.module], call.module, output, False, here, heads, size, keys, over)
        found.append((number, site))
    # some types call the interface only in their decoder, or in one of their towers
    towers = {(site.kind, _tower(site.name)) for _, site in found}
    kinds, seen = {site.kind for _, site in found}, {site.attention for _, site in found}
    source = inputs.get(model.main_input_name)
    for name, attention, numbers, heads in own_attention(model, calls, names):
        last = calls[numbers[-1]]
        lengths = {calls[i].context.shape[1] for i in numbers} - {last.context.shape[1]}
        across = last.across or (source is not None and source.dim() > 1 and source.shape[1] in lengths)
        kind_here = kind(attention, across)
        tower = _tower(name)
        apart = kind_here not in kinds or (tower and (kind_here, tower) not in towers)
        if apart and seen.isdisjoint(attention.modules()):
            output, width = last.module, last.context.shape[-1]
            if division(model, name, output, width) is not None:
                raise ModelError(f"'{name}' is divided over processes and computes its attention itself")
            size = width // heads
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
    """Return whether a site's batch has more than examples; ModelError if dimension 0 is not the batch."""
    texts = next(len(value) for value in inputs.values() if isinstance(value, torch.Tensor))
    texts *= sequences(inputs)
    main = inputs.get(model.main_input_name)
    tokens_first = main is not None and main.dim() == 2 and shape[:2] == (main.shape[1], texts)
    if (tokens_first and shape[0] != texts) or len(shape) < 3:
        raise ModelError(f"W_O of '{site.name}' takes {shape}; expected ({texts}, tokens, hidden)")
    return shape[0] != texts


def _require_told_apart(sites: list[tuple[int, Site]], calls: list[Call]) -> None:
    """Raise ModelError if a decoder's cross-attention could be mistaken for self-attention."""
    encoder, decoder, cross = (
        [calls[number].context.shape[1] for number, site in sites if site.kind == kind]
        for kind in (ENCODER, DECODER, CROSS)
    )
    if decoder and encoder and not cross and encoder[-1] == decoder[0]:
        raise ModelError(
            f"sources and targets of `inputs` have the same length ({decoder[0]}), so cross-attention cannot "
            "be told from self-attention; expected targets of a different length"
        )


def _in_rows(found: list[tuple[int, Site]], kinds: list[str]) -> tuple[list[Site], dict[str, int], int]:
    """Assign rows to the calls of sites; return the same as `find`, with sites that have no heads.

    A row is the layer's number in module names (some layers of hybrid models have no attention), else the
    call's number.
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
