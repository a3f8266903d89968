"""Attention weights of any attention function, also of a fused one."""

from __future__ import annotations

from collections.abc import Callable

import torch


def by_values(
    attention: Callable[..., tuple[torch.Tensor, torch.Tensor | None]],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
) -> torch.Tensor:
    """Return attention weights, (batch, heads, tokens, keys), of a function that returns none.

    Its context vectors are weighted means of values. With one-hot values, a vector's elements are the weights
    themselves, as many at a time as a value is long.
    """
    keys, size = key.shape[-2], value.shape[-1]
    parts = []
    for start in range(0, keys, size):
        n = min(size, keys - start)
        units = value.new_zeros(keys, size)
        units[torch.arange(start, start + n), torch.arange(n)] = 1
        context, _ = attention(query, key, units.expand(*value.shape).contiguous())
        parts.append(context[..., :n])  # (batch, tokens, heads, n)
    return torch.cat(parts, dim=-1).transpose(1, 2)
