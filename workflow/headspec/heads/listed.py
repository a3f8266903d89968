"""Heads that the config lists for a model, pruned in the same way as a task's own heads."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headspec import head_choice
from headspec.attention import existing
from headspec.config import values
from headspec.errors import DataError
from headspec.heads.masks import Mask, random_by_layer
from headspec.heads.ranking import shared_map, top_heads
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

LISTED = Schema(
    {"heads": TEXT, "pruned": TEXT, "draw": INT, "n_pruned": INT, "task": TEXT, "example": INT,
     "label": FLOAT, "prediction": FLOAT},
    keys=6,
)  # fmt: skip
"""Table `listed`: a row for each heads, pruned, draw, task and example.
runs/{model}/{mixture}/{method}/seed{seed}/listed.parquet

heads: name of the list in `models.<name>.heads`
pruned: `none`, `listed`, `shared` or `random` heads, as in [`head_lists`](#head_lists)
"""


def closed(heads: Sequence[Sequence[int]], exists: NDArray[np.bool_], key: str) -> NDArray[np.bool_]:
    """Return the mask (layers, heads) that closes the listed heads: [layer, head], from 0.

    Raises DataError, naming the config `key`, if the model has no such head or the list has all its heads.
    """
    try:
        mask = head_choice.mask([tuple(each) for each in heads], exists, key)
    except ValueError as error:
        raise DataError(str(error)) from None
    if len(heads) == exists.sum():
        raise DataError(f"{key}: got all {len(heads)} heads of the model; expected some of them")
    return mask


def masks(
    lists: Mapping[str, NDArray[np.bool_]], importances: Mapping[str, NDArray[np.float64]], draws: int
) -> dict[str, list[Mask]]:
    """Return the masks of each list: no head, its heads, as many of `shared_map`, and `draws` random ones.

    `lists` maps names to masks (layers, heads), `importances` tasks to maps of that shape. Random masks
    depend only on the list, so that seeds and methods share them.
    """
    planned, together = {}, shared_map(list(importances.values()))
    exists = existing(together)
    for name, mask in lists.items():
        n = int(mask.sum())
        fraction, shared = float(n / exists.sum()), top_heads(together, n)
        rng = np.random.default_rng(derive(0, "listed heads", name))
        planned[name] = [
            Mask(values.NONE, None, 0.0, None, np.zeros_like(mask)),
            Mask(values.LISTED, None, fraction, None, mask),
            Mask(values.SHARED, None, fraction, None, shared),
            *(
                Mask(values.RANDOM, None, fraction, draw, random_by_layer(mask, exists, rng))
                for draw in range(draws)
            ),
        ]
    return planned
