"""The one place where models of transformers compute attention, and those who watch it there.

Nearly every model asks `AttentionInterface` for its attention function, which returns the context vectors of
all heads, (batch, tokens, heads, head size), before W_O mixes them. `get_interface` is the last that knows
both the function's name and the eager function that a module would call instead. It is wrapped, rather than
functions registered under names of ours, because the code of some models compares these names (GPT-2's eager
attention, the masks of DeepSeek's sparse one), and because a model then stays watched whatever
implementation is chosen later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import AttentionInterface

#: context vectors (batch, tokens, heads, size), and attention weights or None
Attended = tuple[torch.Tensor, torch.Tensor | None]
#: attention of queries, keys and values, (batch, heads, tokens, size) each
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Attended]

#: the attribute of a module that has its watchers; copies of a model are watched by copies of these
WATCHERS = "head_watchers"


class Watcher(Protocol):
    """Is called in the place of the attention of the modules that it watches."""

    def attend(
        self,
        attention: Attention,
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> Attended: ...


def watch(module: nn.Module, watcher: Watcher) -> None:
    """Let `watcher` be called in the place of the attention function of a module.

    GPT-2 can compute eager attention, and no other, in a way of its own. It then computes the usual one.
    """
    _install()
    if "reorder_and_upcast_attn" in vars(module):
        vars(module)["reorder_and_upcast_attn"] = False
    module.__dict__.setdefault(WATCHERS, []).append(watcher)


def unwatch(module: nn.Module, watcher: Watcher) -> None:
    """End what `watch` began."""
    watchers = module.__dict__.get(WATCHERS, [])
    watchers[:] = [each for each in watchers if each is not watcher]
    if not watchers:
        module.__dict__.pop(WATCHERS, None)


def _attend(
    function: Callable[..., Attended],
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **kwargs: Any,
) -> Attended:
    watchers = module.__dict__.get(WATCHERS)
    if not watchers:
        return function(module, query, key, value, *args, **kwargs)

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Attended:
        return function(module, query, key, value, *args, **kwargs)

    for watcher in watchers:
        attention = functools.partial(watcher.attend, attention, module)
    return attention(query, key, value)


@functools.cache
def _install() -> None:
    from transformers import AttentionInterface  # slow to import

    usual = AttentionInterface.get_interface

    @functools.wraps(usual)
    def get_interface(self: AttentionInterface, attn_implementation: str, default: Callable) -> Callable:
        return functools.partial(_attend, usual(self, attn_implementation, default))

    AttentionInterface.get_interface = get_interface
