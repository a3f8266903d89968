"""Projections of attention: linear layers, and the modules that replace them where heads were removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

#: dtypes of weights that are not quantised
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def by_columns(layer: nn.Module) -> bool:
    """Return whether the inputs of a linear layer are the columns of its weight."""
    return type(layer).__name__ != "Conv1D"


def is_plain(value: Any) -> bool:
    """Return whether a weight is a plain tensor of floats, not of a subclass, such as of quantised blocks.

    Weights that are offloaded until a pass needs them are not plain.
    """
    return type(value) in (torch.Tensor, nn.Parameter) and value.dtype in FLOATS and not value.is_meta


def is_linear(layer: nn.Module) -> bool:
    """Return whether a layer multiplies by a matrix; embeddings have a matrix but do not."""
    weight = getattr(layer, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.dim() == 2 and not isinstance(layer, nn.Embedding)


def is_packed(layer: nn.Module) -> bool:
    """Return whether a layer is linear and its weights are neither plain floats nor offloaded."""
    weight = getattr(layer, "weight", None)
    return is_linear(layer) and not is_plain(weight) and not getattr(weight, "is_meta", False)


def inputs_first(layer: nn.Module) -> torch.Tensor:
    """Return a view (inputs, outputs) of the weights of a linear layer."""
    weight: Any = layer.weight
    # inputs are columns of a Linear (out, in), but rows of GPT's Conv1D (in, out)
    matrix: torch.Tensor = weight.T if by_columns(layer) else weight
    return matrix


class Zeros(nn.Module):
    """Replacement, without weights, for a projection to queries, keys or values that no head uses."""

    weight: torch.Tensor

    def __init__(self, projection: nn.Module, width: int) -> None:
        super().__init__()
        self.width = width
        # saved with another shape than the removed weights, so that loaders that do not know this layer fail
        # instead of drawing new weights; as long as a bias, which tying would cut or pad
        self.register_buffer("weight", torch.zeros(width))
        vars(self.weight)["_is_hf_initialized"] = True
        self.bias: Any = None if getattr(projection, "bias", None) is None else self.weight

    def extra_repr(self) -> str:
        """Describe the layer, also in the errors of adapter libraries that cannot change it."""
        return "of a layer without heads; adapters leave it out by exclude_modules"

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return zeros for each token of states, (batch, tokens, width)."""
        return states.new_zeros(*states.shape[:-1], self.width)


class Constant(Zeros):
    """W_O of a layer without heads: its bias for every token, if it has one."""

    def __init__(self, projection: nn.Module, hidden: int) -> None:
        super().__init__(projection, hidden)
        self.bias = getattr(projection, "bias", None)

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        """Return the bias, or zeros without one, for each token of the context, (batch, tokens, hidden)."""
        # uses only sizes, so that ONNX files do not compute the context (batch, tokens, width)
        return super().forward(context) if self.bias is None else self.bias.expand(*context.shape[:-1], -1)


class Grouped(nn.Module):
    """A projection to shared keys or values, (batch, tokens, key heads * size), repeated by query head.

    In a joint projection to queries, keys and values, `key_heads` counts the parts of all three.
    """

    key_heads: torch.Tensor

    def __init__(self, projection: nn.Module, key_heads: Sequence[int]) -> None:
        super().__init__()
        self.projection: Any = projection
        self.keys = max(key_heads) + 1
        self.register_buffer("key_heads", torch.tensor(key_heads, device=self.weight.device))

    @property
    def weight(self) -> torch.Tensor:
        """The weight of the projection, (key heads * size, hidden)."""
        weight: torch.Tensor = self.projection.weight
        return weight

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return keys or values, (batch, tokens, heads * size), from states (batch, tokens, hidden)."""
        # (batch, tokens, key heads, size)
        by_head: torch.Tensor = self.projection(states).unflatten(-1, (self.keys, -1))
        return by_head.index_select(-2, self.key_heads).flatten(-2)
