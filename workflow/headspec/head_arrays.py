"""Kinds of attention, indices of heads in arrays and tables, and the forms of users' choices of heads.

Arrays of heads are (rows, heads), with nan where there is no head; the last row has a head. The rows
of an encoder-decoder are the layers of its three kinds of attention, one kind after another.

Frames in memory call the row `layer`. Tables on disk have columns `attention` (the kind) and `layer` (within
the kind), and no rows for missing heads; the footer has the number of layers of each kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: the only attention of an encoder or of a decoder
SELF = "self"
#: the kinds in an encoder-decoder: self-attention of its two stacks, and cross-attention
ENCODER, DECODER, CROSS = "encoder", "decoder", "cross"

#: the order of rows
KINDS = (ENCODER, DECODER, CROSS)

#: number of layers of each kind of attention
Layers = Mapping[str, int]


def as_array(values: pd.Series) -> NDArray[np.float64]:
    """Return values indexed by `layer` and `head` as (layers, heads), with nan where there is no head."""
    layer, head = (values.index.get_level_values(name) for name in ("layer", "head"))
    array = np.full((layer.max() + 1, head.max() + 1), np.nan)
    array[layer, head] = values
    return array


def spread(values: NDArray[Any], exists: NDArray[np.bool_]) -> NDArray[Any]:
    """Return values (..., n) of the n heads in `exists` as (..., layers, heads), with nan elsewhere."""
    array = np.full((*values.shape[:-1], *exists.shape), np.nan, dtype=values.dtype)
    array[..., exists] = values
    return array


def existing(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which heads exist, bool (layers, heads): those whose scores (layers, heads) are not nan."""
    mask: NDArray[np.bool_] = ~np.isnan(scores)
    return mask


def to_layers(frame: pd.DataFrame, models: Mapping[str, Layers]) -> pd.DataFrame:
    """Replace the row in column `layer` by `attention` and the `layer` within it; null rows stay null."""
    kind = pd.Series(SELF, index=frame.index, dtype=object).where(frame["layer"].notna(), None)
    before = pd.Series(0, index=frame.index)
    for in_model, layers in _by_model(frame, models):
        for name, first in first_rows(layers).items():
            there = in_model & (frame["layer"] >= first).fillna(False)
            kind[there], before[there] = name, first
    return frame.assign(attention=kind, layer=(frame["layer"] - before).astype(frame["layer"].dtype))


def to_rows(frame: pd.DataFrame, models: Mapping[str, Layers]) -> pd.DataFrame:
    """Undo `to_layers`."""
    before = pd.Series(0, index=frame.index)
    for in_model, layers in _by_model(frame, models):
        for name, first in first_rows(layers).items():
            before[in_model & (frame["attention"] == name)] = first
    layer = (frame["layer"] + before).astype(frame["layer"].dtype)
    return frame.assign(layer=layer).drop(columns="attention")


def first_rows(layers: Layers) -> dict[str, int]:
    """Return the first row of each kind of attention in a model."""
    kinds = [kind for kind in KINDS if kind in layers]
    numbers = (layers[kind] for kind in kinds)
    return dict(zip(kinds, itertools.accumulate(numbers, initial=0), strict=False))


def _by_model(
    frame: pd.DataFrame, models: Mapping[str, Layers]
) -> list[tuple[np.ndarray | pd.Series, Layers]]:
    """Return which rows of the frame, bool (rows,), belong to each model, and the model's layers."""
    if "model" in frame:
        return [(frame["model"] == model, layers) for model, layers in models.items()]
    return [(np.ones(len(frame), dtype=bool), layers) for layers in models.values()]


#: forms of a choice of heads, for errors
FORMS = "such as from top_heads, {layer: [heads]} or pairs (layer, head)"


def array(values: Any, name: str) -> NDArray[Any]:
    """Return numbers in any form as an array: lists, arrays, and tensors of any precision and device.

    Raises ValueError, starting with `name`, if they are not numbers or rows differ in length.
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
    """Return scores in any form as floats (layers, heads), or (heads,) if `least` is 1.

    Raises ValueError for other shapes, or as `array`.
    """
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
        (layer, head), but not with two heads a layer, where they look like a mask. Layers are rows, from 0.
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
    """Return the pairs of an entry of a mapping. Raises ValueError for another form."""
    try:
        listed = [layer, *(heads if isinstance(heads, Iterable) and not isinstance(heads, str) else [heads])]
        numbers = [int(number) for number in listed if number == int(number)]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != len(listed):
        raise ValueError(f"{name}: got {layer!r}: {heads!r}, expected a layer: a list of its heads, from 0")
    return [(numbers[0], head) for head in numbers[1:]]


def _of_pairs(pairs: list[Any], exists: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Return the mask of pairs (layer, head). Raises ValueError if the model has no such head."""
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
