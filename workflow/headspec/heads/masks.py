"""Pruning masks: top, bottom, random, layer-matched random, and listed heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.config import values
from headspec.errors import DataError
from headspec.head_arrays import existing
from headspec.heads.ranking import bottom_heads, joint_importance, prune_count, top_heads
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema


@dataclass(frozen=True)
class Mask:
    """Heads to prune; the fields other than `closed` are columns of the table `pruning`."""

    pruned_for: str
    order: str | None
    fraction: float
    draw: int | None
    closed: np.ndarray  # bool (layers, heads)


def random_heads(exists: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return `n` of the existing heads, drawn uniformly without replacement, as bool (layers, heads)."""
    closed, places = np.zeros(exists.shape, dtype=bool), np.flatnonzero(exists)
    closed.flat[rng.choice(places, n, replace=False)] = True
    return closed


def random_by_layer(reference: np.ndarray, exists: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return values of heads (layers, heads) shuffled within each layer of `exists`.

    Of a mask, these are random heads, as many per layer as in `reference`.
    """
    shuffled = reference.copy()
    for row, there in zip(shuffled, exists, strict=True):
        row[there] = rng.permuted(row[there])
    return shuffled


def masks(
    importances: dict[str, np.ndarray],
    fraction: float,
    fractions: list[float],
    draws: int,
    seed: int,
    bottom: bool = True,
    heads: Sequence[int] = (),
) -> list[Mask]:
    """Return every mask that a run is evaluated under.

    One closes no head. Others close the top and, with `bottom`, the bottom heads of each task: at the main
    `fraction`, at `fractions`, and at the counts in `heads`. `draws` masks close random heads at the main
    fraction. As many, or one per task if there are more tasks, close layer-matched random heads: draw d has
    as many per layer as the top heads of task d modulo the number of tasks.

    `importances` maps tasks to importance (layers, heads); fractions are of the existing heads.
    """
    exists = existing(next(iter(importances.values())))
    total = int(exists.sum())
    planned = [Mask("none", None, 0.0, None, np.zeros_like(exists))]
    for level in sorted({fraction, *fractions, *(number / total for number in heads)}):
        n = prune_count(level, total)
        for task, importance in importances.items():
            planned.append(Mask(task, "top", level, None, top_heads(importance, n)))
            if bottom:
                planned.append(Mask(task, "bottom", level, None, bottom_heads(importance, n)))
    n = prune_count(fraction, total)
    tops = [top_heads(importance, n) for importance in importances.values()]
    for draw in range(draws):
        rng = np.random.default_rng(derive(seed, "random", draw))
        planned.append(Mask("random", None, fraction, draw, random_heads(exists, n, rng)))
    for draw in range(max(draws, len(tops))):
        rng = np.random.default_rng(derive(seed, "random_by_layer", draw))
        closed = random_by_layer(tops[draw % len(tops)], exists, rng)
        planned.append(Mask("random_by_layer", None, fraction, draw, closed))
    return planned


def draw_rows(draw: int, size: int | None, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows (size,), among `n`, on which random mask `draw` is evaluated; all if `size` is None.

    Consecutive draws take consecutive windows of a circular permutation drawn with `rng` (the same for
    every draw), so that no row is used more than once more than another.
    """
    if size is None or size >= n:
        return np.arange(n)
    return rng.permutation(n)[(draw * size + np.arange(size)) % n]


LISTED = Schema(
    {"heads": TEXT, "pruned": TEXT, "draw": INT, "n_pruned": INT, "task": TEXT, "example": INT,
     "label": FLOAT, "prediction": FLOAT},
    keys=6,
    paths=("{run}/listed.parquet",),
    about={
        "heads": "name of the list in `models.<name>.heads`",
        "pruned": "`none`, `listed`, `shared` or `random` heads, as in [`head_lists`](#head_lists)",
    },
)  # fmt: skip


def listed_heads_mask(
    heads: Sequence[Sequence[int]], exists: NDArray[np.bool_], key: str
) -> NDArray[np.bool_]:
    """Return the mask (layers, heads) that closes the listed heads: [layer, head], from 0.

    Raises DataError, naming the config `key`, if the model has no such head or the list has all its heads.
    """
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    try:
        mask = head_arrays.mask(by_layer, exists, key)
    except ValueError as error:
        raise DataError(str(error)) from None
    if len(heads) == exists.sum():
        raise DataError(f"{key}: got all {len(heads)} heads of the model; leave at least one out")
    return mask


def listed_masks(
    lists: Mapping[str, NDArray[np.bool_]], importances: Mapping[str, NDArray[np.float64]], draws: int
) -> dict[str, list[Mask]]:
    """Return the masks of each list: no head, its heads, top heads by `joint_importance`, and random heads.

    There are as many top heads as heads in the list; each of `draws` random sets also has as many per layer.
    `lists` maps names to masks (layers, heads), `importances` tasks to maps of that shape. Random masks
    depend only on the list, so that seeds and methods share them.
    """
    planned, together = {}, joint_importance(list(importances.values()))
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
