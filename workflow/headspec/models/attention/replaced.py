"""Modules in the place of projections of which heads were removed."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


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
