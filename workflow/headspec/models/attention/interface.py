"""The attention interface of transformers, and functions that replace a module's attention.

Nearly every model gets its attention function from `AttentionInterface`. It returns the context vectors of
all heads, (batch, tokens, heads, head size), before W_O mixes them. `get_interface` is wrapped instead of
registering functions: some models compare their names (GPT-2's eager attention, DeepSeek's sparse masks), and
a model must stay watched if another implementation is chosen later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import AttentionInterface

#: context vectors (batch, tokens, heads, size), and attention weights or None
Attended = tuple[torch.Tensor, torch.Tensor | None]
#: attention of queries, keys and values, (batch, heads, tokens, size) each
Attention = Callable[..., Attended]
#: takes the usual attention, its module, queries, keys and values; called instead of that attention
Watcher = Callable[..., Attended]

#: the attribute of a module that lists its watchers; a copied model has copies of methods that watch it
WATCHERS = "head_watchers"


def watch(module: nn.Module, watcher: Watcher) -> None:
    """Call `watcher` instead of a module's attention, or GPT-2's eager one (`reorder_and_upcast_attn`)."""
    _install()
    if "reorder_and_upcast_attn" in vars(module):
        vars(module)["reorder_and_upcast_attn"] = False
    module.__dict__.setdefault(WATCHERS, []).append(watcher)


def unwatch(module: nn.Module, watcher: Watcher) -> None:
    """Undo `watch`."""
    watchers = module.__dict__.get(WATCHERS, [])
    watchers[:] = [other for other in watchers if other != watcher]
    if not watchers:
        module.__dict__.pop(WATCHERS, None)


def _attend(
    function: Attention,
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **kwargs: Any,
) -> Attended:
    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Attended:
        return function(module, query, key, value, *args, **kwargs)

    for watcher in module.__dict__.get(WATCHERS, ()):
        attention = functools.partial(watcher, attention, module)
    return attention(query, key, value)


@functools.cache
def _install() -> None:
    from transformers import AttentionInterface  # slow to import

    usual = AttentionInterface.get_interface

    @functools.wraps(usual)
    def get_interface(self: AttentionInterface, attn_implementation: str, default: Callable) -> Callable:
        return functools.partial(_attend, usual(self, attn_implementation, default))

    AttentionInterface.get_interface = get_interface
