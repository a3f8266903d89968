"""States of earlier tokens (`past_key_values`) among the arguments of a model.

A pass adds its own tokens to them, so each pass needs a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch

#: least dimensions of a tensor by example: (n, heads, tokens, size), or the states of a recurrence
BY_EXAMPLE = 3


def is_past(value: Any) -> bool:
    """Return whether an argument holds states of earlier tokens."""
    from transformers import Cache  # slow to import

    return isinstance(value, Cache)


def fresh(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for one pass, which changes none of `inputs`."""
    return {name: copied(value) if is_past(value) else value for name, value in inputs.items()}


def copied(past: Any, n: int = 0, chosen: slice | torch.Tensor = slice(None)) -> Any:
    """Return a copy of the states of all examples, or of some of n, by a slice or their numbers."""

    def part(tensor: torch.Tensor) -> torch.Tensor:
        by_example = tensor.dim() >= BY_EXAMPLE and len(tensor) == n
        return (tensor[chosen] if by_example else tensor).detach().clone()

    return copy.deepcopy(past, {id(tensor): part(tensor) for tensor in tensors(past)})


def tensors(past: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in states of earlier tokens: of each layer, and of each of several caches."""
    if isinstance(past, torch.Tensor):
        yield past
    elif isinstance(past, Mapping):
        yield from tensors([*past.values()])
    elif isinstance(past, (list, tuple)):
        for each in past:
            yield from tensors(each)
    elif any(base.__module__ == "transformers.cache_utils" for base in type(past).__mro__):
        yield from tensors(vars(past))  # also of caches and layers that a model or a user derives from these


def length(inputs: Mapping[str, Any]) -> int:
    """Return the number of earlier tokens whose states are among the arguments of a model."""
    return max((int(value.get_seq_length()) for value in inputs.values() if is_past(value)), default=0)


def room(inputs: Mapping[str, Any]) -> int:
    """Return how many earlier tokens there is room for, at least as many as have states."""
    states = [tensor for value in inputs.values() if is_past(value) for tensor in tensors(value)]
    return max((tensor.shape[-2] for tensor in states if tensor.dim() > BY_EXAMPLE), default=0)
