"""Batches of a model's arguments: checks, counts and slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from headspec.errors import listing
from headspec.models.attention.past import copied, is_past
from headspec.models.attention.probe_inputs import on

#: arguments of a model for some examples, such as from a DataLoader
Inputs = Mapping[str, Any]
LABELS = "labels"
#: label of tokens that the loss ignores
IGNORED = -100


def arguments(batch: Any, device: torch.device) -> dict[str, Any]:
    """Return a batch with its tensors on a device, and lists and arrays of numbers as tensors.

    Raises ValueError if it is not a mapping, or rows differ in length.
    """
    if not isinstance(batch, Mapping):
        raise ValueError(
            f"batches: got a {type(batch).__name__}, expected arguments of the model by name, "
            "such as {'input_ids': ..., 'labels': ...}"
        )
    return on(device, {name: _tensor(name, value) for name, value in batch.items()})


def _tensor(name: str, value: Any) -> Any:
    """Return lists and arrays of numbers as a tensor. Raises ValueError if their rows differ in length."""
    if not isinstance(value, (list, np.ndarray)):
        return value
    try:
        numbers = np.asarray(value)
    except TypeError:  # tensors that are not on the CPU
        return value
    except ValueError:
        raise ValueError(
            f"batches: rows of {name} differ in length; expected a tensor, such as of a tokenizer with "
            "padding=True"
        ) from None
    return torch.from_numpy(numbers) if numbers.dtype.kind in "biuf" else value


def count(batch: Inputs, main: str = "input_ids") -> int:
    """Return the number of examples in a batch of a model with this `main` input.

    Raises ValueError if there are none, it differs between inputs and labels, or the main input is that of an
    example on its own.
    """
    sizes = {
        name: len(value) for name, value in batch.items() if isinstance(value, torch.Tensor) and value.dim()
    }
    if isinstance(given := batch.get(main), torch.Tensor) and given.dim() == 1:
        raise ValueError(
            f"batches: {main} is {tuple(given.shape)}, one example; expected several, such as a "
            "batch from a DataLoader"
        )
    if not sizes:
        raise ValueError(f"batches: got {listing(batch)}, none of them a tensor with a row for each example")
    sizes = {name: sizes[name] for name in (LABELS, main) if name in sizes} or sizes
    (name, n), *others = sizes.items()
    if not n:
        raise ValueError("batches: got one without examples")
    if len({*sizes.values()}) > 1 and name == LABELS:
        raise ValueError(f"batches: labels has {n} examples, but {others[0][0]} has {others[0][1]}")
    return n


def rows(batch: Inputs, chosen: slice | torch.Tensor, main: str = "input_ids") -> dict[str, Any]:
    """Return some examples of a batch, by a slice or their numbers (m,)."""
    n = count(batch, main)

    def part(value: Any) -> Any:
        if is_past(value):
            return copied(value, n, chosen)
        by_example = isinstance(value, torch.Tensor) and value.dim() and len(value) == n
        return value[chosen] if by_example else value

    return {name: part(value) for name, value in batch.items()}


def without_labels(batch: Inputs) -> dict[str, Any]:
    """Return a batch without labels, for which a model computes no loss."""
    return {name: value for name, value in batch.items() if name not in (LABELS, "return_loss")}
