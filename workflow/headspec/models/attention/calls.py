"""Calls of attention, and of linear layers that may be W_O, in a forward pass."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.models.attention.interface import Attended, Attention, as_written, watched
from headspec.models.attention.projections import Zeros, is_linear

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: the outermost attention module in the name of a layer inside it: "encoder.layer.0.attention" in
#: "encoder.layer.0.attention.output.dense", "attentions.0" in "attentions.0.out_lin"
OWN_ATTENTION = re.compile(r"(?:[^.]+\.)*?[^.]*att[^.]*(?:\.\d+)?(?=\.)", re.IGNORECASE)
#: attribute for the number of heads that `remove_heads` leaves in such a module, whose code may keep the old
#: number
KEPT = "kept_heads"
#: names of attributes for the number of heads in such a module, or one inside it
HEADS = (KEPT, "num_attention_heads", "num_heads", "num_attn_heads", "n_heads", "n_head")
#: arguments of cross-attention for the states of the other stack
OTHER_STATES = ("key_value_states", "encoder_hidden_states")


@dataclass
class Call:
    """A call of attention, or of a layer that may be W_O."""

    module: nn.Module
    context: torch.Tensor  # (batch, tokens, heads, size), or the input of a layer
    keys: int | None = None  # number of attended tokens; None for a layer
    heads: int | None = None  # of keys and values
    across: bool = False  # whether the call has states of another stack


def calls_of(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[list[Call], Any]:
    """Return the calls of attention and of linear layers in a forward pass, in order, and its output.

    Layers inside a linear layer, such as those of an adapter, count as part of it.
    """
    calls: list[Call] = []
    crossing: set[nn.Module] = set()
    layers = [module for module in model.modules() if is_linear(module) or isinstance(module, Zeros)]
    parts = {part for layer in layers for part in layer.modules() if part is not layer}
    inside = {
        module: model.get_submodule(match[0])
        for name, module in model.named_modules()
        if (match := OWN_ATTENTION.match(name))
    }

    def attend(attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        context, weights = attention(*states)
        calls.append(Call(module, context, states[1].shape[-2], states[1].shape[1], module in crossing))
        return context, weights

    def enter(places: list[tuple[int, str]], module: nn.Module, args: Any, given: dict[str, Any]) -> None:
        crossing.discard(module)
        tensors = (args[place] if place < len(args) else given.get(name) for place, name in places)
        if any(states is not None for states in tensors):
            crossing.add(module)

    def take(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            calls.append(Call(module, args[0], across=inside.get(module) in crossing))

    places_of = functools.cache(_places)
    with as_written(), ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            stack.enter_context(watched(module, attend))
            if places := places_of(getattr(module.forward, "__func__", module.forward)):
                hook = functools.partial(enter, places)
                stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
        for layer in layers:
            if layer not in parts:
                stack.callback(layer.register_forward_pre_hook(take).remove)
        return calls, model(**inputs)


def _places(forward: Callable[..., Any]) -> list[tuple[int, str]]:
    """Return where a forward function accepts the states of another stack: positions and names."""
    names = inspect.signature(forward).parameters
    first = "self" in names  # of a function that is not bound
    return [(place - first, name) for place, name in enumerate(names) if name in OTHER_STATES]


def following(calls: list[Call], width: int) -> nn.Module | None:
    """Return the first layer, before the next attention, whose input has this width."""
    layers = itertools.takewhile(lambda call: call.keys is None, calls)
    return next((call.module for call in layers if call.context.shape[-1] == width), None)


def own_attention(
    model: PreTrainedModel, calls: list[Call], names: Mapping[nn.Module, str]
) -> Iterator[tuple[str, nn.Module, list[int], int]]:
    """Yield modules that compute attention themselves: name, module, indices of W_O's calls, and heads."""
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
