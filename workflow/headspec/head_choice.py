"""Scores and choices of heads, in the forms that users have them, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: forms of a choice of heads, in errors
FORMS = "such as from top_heads, {layer: [heads]} or pairs (layer, head)"


def array(values: Any, name: str) -> NDArray[Any]:
    """Return numbers in any form as an array: lists, arrays, and tensors of any precision and device.

    Raises ValueError, beginning with `name`, if they are not numbers or their rows differ in length.
    """
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.itemsize < 4 else values
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name}: got rows of different lengths, expected (layers, heads)") from None
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"{name}: got {type(values).__name__}, expected numbers")
    return numbers


def scores(values: Any, name: str = "scores", least: int = 2) -> NDArray[np.floating]:
    """Return scores in any form as floats (layers, heads), or (heads,) with `least` 1; else ValueError."""
    numbers = array(values, name)
    if not least <= numbers.ndim <= 2:
        hint = "; of examples, take the mean of absolute values first" if numbers.ndim == 3 else ""
        raise ValueError(f"{name}: got {numbers.shape}, expected (layers, heads){hint}")
    return numbers if numbers.dtype.kind == "f" else numbers.astype(float)


def mask(heads: Any, exists: NDArray[np.bool_], name: str = "heads", most: int = 2) -> NDArray[np.bool_]:
    """Return chosen heads as bool (..., layers, heads) with up to `most` dimensions.

    Parameters
    ----------
    heads : bool of that shape; or a mapping from layers to lists of heads, as `prune_heads` took it; or pairs
        (layer, head). Layers are rows, from 0.
    exists : bool (layers, heads), heads of the model

    Raises
    ------
    ValueError
        It is none of these, the model has no such head, or shapes do not match.
    """
    if isinstance(heads, Mapping):
        return _of_pairs([pair for each in heads.items() for pair in _pairs(*each, name)], exists, name)
    chosen = array([*heads] if isinstance(heads, (set, frozenset)) else heads, name)
    layers, width = exists.shape
    if not chosen.size and chosen.ndim == 1:
        return np.zeros_like(exists)
    if chosen.dtype.kind in "iu" and chosen.ndim == 2 and chosen.shape[1] == 2 != width:
        return _of_pairs(chosen.tolist(), exists, name)
    shape = f"({layers}, {width})" if most == 2 else f"(..., {layers}, {width})"
    if chosen.dtype != bool:
        raise ValueError(f"{name}: got {chosen.dtype} {chosen.shape}, expected bool {shape}, {FORMS}")
    if chosen.shape[-2:] != exists.shape or chosen.ndim > most:
        raise ValueError(f"{name}: got {chosen.shape}, expected {shape}")
    return chosen


def _pairs(layer: Any, heads: Any, name: str) -> list[tuple[int, int]]:
    """Return the pairs of an entry of a mapping."""
    try:
        listed = [layer, *(heads if isinstance(heads, Iterable) and not isinstance(heads, str) else [heads])]
        numbers = [int(number) for number in listed if number == int(number)]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != len(listed):
        raise ValueError(f"{name}: got {layer!r}: {heads!r}, expected a layer: a list of its heads, from 0")
    return [(numbers[0], head) for head in numbers[1:]]


def _of_pairs(pairs: list[Any], exists: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Return the mask of pairs (layer, head); ValueError if the model has no such head."""
    chosen, (layers, width) = np.zeros_like(exists), exists.shape
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < width):
            has = f"layers 0 to {layers - 1} with heads 0 to {width - 1}"
        elif not exists[layer, head]:
            has = f"{exists[layer].sum()} heads in that layer"
        else:
            chosen[layer, head] = True
            continue
        raise ValueError(f"{name}: got layer {layer}, head {head}; the model has {has}")
    return chosen
