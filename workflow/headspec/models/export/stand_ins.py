"""What takes the place of projections of heads, as modules of torch alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn


class Constant(nn.Module):
    """W_O of a layer without heads: its bias for every token, whatever the input."""

    def __init__(self, projection: nn.Module, hidden: int) -> None:
        super().__init__()
        weight: Any = projection.weight
        bias = getattr(projection, "bias", None)
        self.bias = nn.Parameter(weight.new_zeros(hidden) if bias is None else bias.detach().clone())

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        # by sizes alone, so that ONNX files have nothing of what computes these (batch, tokens, width)
        return self.bias.expand(context.size(0), context.size(1), -1)


class Grouped(nn.Module):
    """A projection to keys or values that query heads share; the output has one for each query head.

    Parameters
    ----------
    projection : its output is (batch, tokens, key heads * size)
    of_query : the key head of each query head
    """

    def __init__(self, projection: nn.Module, of_query: Sequence[int]) -> None:
        super().__init__()
        weight: Any = projection.weight
        self.projection, self.keys = projection, max(of_query) + 1
        self.register_buffer("of_query", torch.tensor(of_query, device=weight.device))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        by_head = self.projection(states).unflatten(-1, (self.keys, -1))
        return by_head.index_select(-2, self.of_query).flatten(-2)


def plain(module: nn.Module) -> nn.Module:
    """A module of torch that computes the same; to unpickle it takes nothing else."""

    class Tracer(fx.Tracer):  # a class that can be imported would be pickled as well
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    graph = Tracer().trace(module)
    for node in graph.nodes:
        node.type = None  # the name of an annotation, which cannot be pickled
    return fx.GraphModule(module, graph, type(module).__name__)
