"""Replacements of projections of heads, as modules that need only torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn


class Constant(nn.Module):
    """W_O of a layer without heads: its bias for every token."""

    def __init__(self, projection: nn.Module, hidden: int) -> None:
        super().__init__()
        weight: Any = projection.weight
        bias = getattr(projection, "bias", None)
        self.bias = nn.Parameter(weight.new_zeros(hidden) if bias is None else bias.detach().clone())

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        # uses only sizes, so that ONNX files do not compute the context (batch, tokens, width)
        return self.bias.expand(context.size(0), context.size(1), -1)


class Grouped(nn.Module):
    """A projection to shared keys or values, (batch, tokens, key heads * size), repeated by query head."""

    def __init__(self, projection: nn.Module, key_heads: Sequence[int]) -> None:
        super().__init__()
        weight: Any = projection.weight
        self.projection, self.keys = projection, max(key_heads) + 1
        self.register_buffer("key_heads", torch.tensor(key_heads, device=weight.device))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        by_head = self.projection(states).unflatten(-1, (self.keys, -1))
        return by_head.index_select(-2, self.key_heads).flatten(-2)


def plain(module: nn.Module) -> nn.Module:
    """Return a module that computes the same, and unpickles with torch alone."""

    class Tracer(fx.Tracer):  # a class that can be imported would be pickled as well
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    graph = Tracer().trace(module)
    for node in graph.nodes:
        node.type = None  # the name of an annotation, which cannot be pickled
    return fx.GraphModule(module, graph, type(module).__name__)
