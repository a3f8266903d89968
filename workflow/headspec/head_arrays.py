"""Kinds of attention, and the indices of heads in arrays and tables.

Arrays of heads are (rows, heads), with nan where there is no head; the last row has at least one. The rows
of an encoder-decoder are the layers of its three kinds of attention, one kind after another.

Frames in memory call the row `layer`. Tables on disk have columns `attention` (the kind) and `layer` (within
the kind), no rows for missing heads, and the number of layers of each kind in the footer.
"""

import itertools
from collections.abc import Mapping
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
    """Return a bool mask (layers, heads) of the heads that scores (layers, heads) contain."""
    mask: NDArray[np.bool_] = ~np.isnan(scores)
    return mask


def to_layers(frame: pd.DataFrame, models: Mapping[str, Layers]) -> pd.DataFrame:
    """Replace the row in column `layer` by `attention` and `layer` within it; null where no head is."""
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
