"""Heads that someone else has listed, to be pruned like a task's own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.data import readers
from headspec.errors import DataError, HeadspecError, listing
from headspec.heads.head_count import size
from headspec.heads.masks import Mask, random_by_layer
from headspec.heads.ranking import shared_map, top_heads
from headspec.seeds import derive
from headspec.statistics.dissociation import list_masks
from headspec.tables import FLOAT, INT, TEXT, Schema

LISTED = Schema(
    {"heads": TEXT, "pruned": TEXT, "draw": INT, "n_pruned": INT, "task": TEXT, "example": INT,
     "label": FLOAT, "prediction": FLOAT},
    keys=6,
)  # fmt: skip
"""Table `listed`: a row for each list of heads, mask and validation example.
runs/{model}/{mixture}/{method}/seed{seed}/listed.parquet

heads: name of the list in `models.<name>.heads`
pruned: what is pruned: `none`, the `listed` heads, as many of the most important for all tasks together
    (`shared`), or `random` ones, as many in each layer as the list has, the same for every seed
draw: which random mask, from 0; null for others
n_pruned: number of heads pruned
task: evaluated task
"""
COLUMNS = ["layer", "head"]


def read(source: str, key: str) -> NDArray[np.intp]:
    """The heads of a list, (n, 2): layer and head, from 0.

    Parameters
    ----------
    source : path of a table with the columns `layer` and `head`
    key : its config key, for errors

    Raises
    ------
    DataError
        There is no such table, or it has no head, a value that is no number of one, or one twice.
    """
    path = locate(source, key)

    def columns(present: list[str]) -> list[str]:
        if missing := [name for name in COLUMNS if name not in present]:
            raise DataError(f"{key}: no column {listing(missing)} in {path.name}; it has {listing(present)}")
        return COLUMNS

    frame = readers.table(path, key, columns, COLUMNS)
    numbers = frame.apply(pd.to_numeric, errors="coerce")
    wrong = frame[(numbers.isna() | (numbers < 0) | (numbers % 1 != 0)).any(axis=1)]
    if frame.empty or len(wrong):
        got = f"layer {wrong.iloc[0, 0]}, head {wrong.iloc[0, 1]}" if len(wrong) else "no rows"
        raise DataError(f"{key}: {path.name} has {got}; expected numbers of layers and heads, from 0")
    heads = numbers.to_numpy(dtype=np.intp)
    if len(twice := frame[numbers.duplicated()]):
        raise DataError(f"{key}: {path.name} has layer {twice.iloc[0, 0]}, head {twice.iloc[0, 1]} twice")
    return heads


def closed(heads: NDArray[np.intp], shape: tuple[int, int], key: str) -> NDArray[np.bool_]:
    """The mask (layers, heads) that closes listed heads (n, 2).

    Raises
    ------
    DataError
        The model has no such head, or no other.
    """
    if len(beyond := heads[(heads >= shape).any(axis=1)]):
        layer, head = beyond[0]
        raise DataError(
            f"{key}: got layer {layer}, head {head}; the model has layers 0 to {shape[0] - 1} with heads "
            f"0 to {shape[1] - 1}"
        )
    if len(heads) == shape[0] * shape[1]:
        raise DataError(f"{key}: got all {len(heads)} heads of the model; expected some of them")
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(heads.T)] = True
    return mask


def check(study: Study) -> None:
    """Read all lists of a study, and compare them with models whose size is known; HeadspecError if wrong."""
    errors: list[HeadspecError] = []
    for name, model in study.models.items():
        shape = None
        with contextlib.suppress(HeadspecError):  # reported with the model
            shape = size(model, f"models.{name}")
        for of, source in model.heads.items():
            key = f"models.{name}.heads.{of}"
            try:
                heads = read(source, key)
                if shape:
                    closed(heads, shape, key)
            except DataError as error:
                errors += error.errors
    if errors:
        raise HeadspecError.of(errors)


def masks(
    lists: Mapping[str, NDArray[np.bool_]], importances: Mapping[str, NDArray[np.float64]], draws: int
) -> dict[str, list[Mask]]:
    """List: its mask, that of as many heads of `shared_map`, and `draws` random ones; the first prunes none.

    Random masks depend on nothing but the list, so that seeds and methods share them.

    Parameters
    ----------
    lists : name: mask (layers, heads)
    importances : task: importance (layers, heads)
    """
    planned = {}
    for name, mask in lists.items():
        n, fraction = int(mask.sum()), float(mask.mean())
        shared = top_heads(shared_map(list(importances.values())), n)
        rng = np.random.default_rng(derive(0, "listed heads", name))
        planned[name] = [
            Mask(list_masks.NONE, None, 0.0, None, np.zeros_like(mask)),
            Mask(list_masks.LISTED, None, fraction, None, mask),
            Mask(list_masks.SHARED, None, fraction, None, shared),
            *(
                Mask(list_masks.RANDOM, None, fraction, draw, random_by_layer(mask, rng))
                for draw in range(draws)
            ),
        ]
    return planned
