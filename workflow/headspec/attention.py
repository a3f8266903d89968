"""Kinds of attention, and the places of heads in arrays and in tables.

Arrays of heads are (rows, heads), and frames in memory call a row its `layer`. Rows may be ragged: layers
without attention have no head, other rows fewer than the longest. Arrays of scores are nan where there is no
head, and tables have no row; the last row of an array has a head, so that a table says its shape.

An encoder-decoder has three kinds of attention: its rows are the layers of each kind, one kind after the
other. Only tables on disk have the kind and the layer within it, in columns `attention` and `layer`. What a
table needs to know for that is in its footer, which takes it over from the tables that the job has read.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: the only attention of an encoder or of a decoder
SELF = "self"
#: those of an encoder-decoder: self-attention of its two stacks, and that of the decoder to the encoder
ENCODER, DECODER, CROSS = "encoder", "decoder", "cross"

#: the order of rows
KINDS = (ENCODER, DECODER, CROSS)

#: kind of attention: its number of layers
Layers = Mapping[str, int]


def as_array(values: pd.Series) -> NDArray[np.float64]:
    """Values of heads, indexed by `layer` and `head`, as (layers, heads); nan where there is no head."""
    layer, head = (values.index.get_level_values(name) for name in ("layer", "head"))
    array = np.full((layer.max() + 1, head.max() + 1), np.nan)
    array[layer, head] = values
    return array


def spread(values: NDArray[Any], exists: NDArray[np.bool_]) -> NDArray[Any]:
    """Values (..., n) of the n heads that exist, row by row, as (..., layers, heads); nan elsewhere.

    Parameters
    ----------
    exists : bool (layers, heads)
    """
    array = np.full((*values.shape[:-1], *exists.shape), np.nan, dtype=values.dtype)
    array[..., exists] = values
    return array


def existing(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """The heads of scores (layers, heads)."""
    return ~np.isnan(scores)


def placed(frame: pd.DataFrame, of_models: Mapping[str, Layers]) -> pd.DataFrame:
    """A frame as its table has it: `attention` beside `layer`, both null where the row is of no head.

    Parameters
    ----------
    frame : columns `layer`, which is the row, and `model` unless all rows are of one model
    of_models : the models with several kinds of attention
    """
    kind = pd.Series(SELF, index=frame.index, dtype=object).where(frame["layer"].notna(), None)
    before = pd.Series(0, index=frame.index)
    for of_model, layers in _by_model(frame, of_models):
        for name, first in first_rows(layers).items():
            there = of_model & (frame["layer"] >= first).fillna(False)
            kind[there], before[there] = name, first
    return frame.assign(attention=kind, layer=(frame["layer"] - before).astype(frame["layer"].dtype))


def in_rows(frame: pd.DataFrame, of_models: Mapping[str, Layers]) -> pd.DataFrame:
    """The frame that `placed` was given; parameters as there."""
    before = pd.Series(0, index=frame.index)
    for of_model, layers in _by_model(frame, of_models):
        for name, first in first_rows(layers).items():
            before[of_model & (frame["attention"] == name)] = first
    layer = (frame["layer"] + before).astype(frame["layer"].dtype)
    return frame.assign(layer=layer).drop(columns="attention")


def first_rows(layers: Layers) -> dict[str, int]:
    """The first row of each kind of attention that a model has."""
    kinds = [kind for kind in KINDS if kind in layers]
    numbers = (layers[kind] for kind in kinds)
    return dict(zip(kinds, itertools.accumulate(numbers, initial=0), strict=False))


def _by_model(
    frame: pd.DataFrame, of_models: Mapping[str, Layers]
) -> list[tuple[np.ndarray | pd.Series, Layers]]:
    """The rows of the frame that are of each model, and its layers."""
    if "model" in frame:
        return [(frame["model"] == model, layers) for model, layers in of_models.items()]
    return [(np.ones(len(frame), dtype=bool), layers) for layers in of_models.values()]
