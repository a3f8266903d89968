"""Pruning masks: top, bottom, random, and layer-matched random heads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headspec.attention import existing
from headspec.heads.ranking import bottom_heads, prune_count, top_heads
from headspec.seeds import derive


@dataclass(frozen=True)
class Mask:
    """Heads to prune; fields are named as in the table `pruning`."""

    pruned_for: str
    order: str | None
    fraction: float
    draw: int | None
    closed: np.ndarray  # bool (layers, heads)


def random_heads(exists: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n` of the existing heads uniformly without replacement; bool (layers, heads)."""
    closed, places = np.zeros(exists.shape, dtype=bool), np.flatnonzero(exists)
    closed.flat[rng.choice(places, n, replace=False)] = True
    return closed


def random_by_layer(reference: np.ndarray, exists: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw random heads from `exists`, as many per layer as the mask `reference` (layers, heads) closes."""
    closed = reference.copy()
    for row, there in zip(closed, exists, strict=True):
        row[there] = rng.permuted(row[there])
    return closed


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

    One closes no head. Others close the top and, with `bottom`, the bottom heads of each task, at
    `fractions`, the main `fraction`, and in the numbers `heads`. `draws` masks close random heads at the main
    fraction; as many, or one per task if there are more tasks, close layer-matched random heads: draw d has
    the layer counts of the top heads of task d modulo the number of tasks.

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
    """Return the rows, among `n`, on which random mask `draw` is evaluated: `size` of them, or all.

    Windows of consecutive draws follow one another around a permutation drawn with `rng` (the
    same for every draw), so that every row is used equally often.
    """
    if size is None or size >= n:
        return np.arange(n)
    return rng.permutation(n)[(draw * size + np.arange(size)) % n]
