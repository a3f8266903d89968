"""Which heads to prune: top, bottom, random, and random with a task's number per layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headspec.maps import bottom_heads, prune_count, top_heads
from headspec.seeds import derive


@dataclass(frozen=True)
class Mask:
    """One pruning; field names and values as in the table `pruning`."""

    pruned_for: str
    order: str | None
    fraction: float
    draw: int | None
    closed: np.ndarray  # bool (layers, heads)


def random_heads(shape: tuple[int, int], n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` heads of a (layers, heads) grid, every set equally likely."""
    closed = np.zeros(shape, dtype=bool)
    closed.flat[rng.choice(closed.size, n, replace=False)] = True
    return closed


def random_by_layer(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random heads, in every layer as many as the mask `like` (layers, heads) closes there."""
    return rng.permuted(like, axis=1)


def masks(
    maps: dict[str, np.ndarray], fraction: float, fractions: list[float], draws: int, seed: int
) -> list[Mask]:
    """Every mask that a run is evaluated under.

    None; each task's top and bottom heads over `fractions` and at the main `fraction`; `draws`
    random masks at the main fraction, and as many that are matched per layer. Draw d of the
    latter has the layer counts of the top heads of the mixture's task d modulo the number of
    tasks.

    Parameters
    ----------
    maps : task: importance (layers, heads)
    """
    shape = next(iter(maps.values())).shape
    total = shape[0] * shape[1]
    found = [Mask("none", None, 0.0, None, np.zeros(shape, dtype=bool))]
    for part in sorted({fraction, *fractions}):
        n = prune_count(part, total)
        for task, importance in maps.items():
            found.append(Mask(task, "top", part, None, top_heads(importance, n)))
            found.append(Mask(task, "bottom", part, None, bottom_heads(importance, n)))
    n = prune_count(fraction, total)
    tops = [top_heads(importance, n) for importance in maps.values()]
    for draw in range(draws):
        rng = np.random.default_rng(derive(seed, "random", draw))
        found.append(Mask("random", None, fraction, draw, random_heads(shape, n, rng)))
        rng = np.random.default_rng(derive(seed, "random_by_layer", draw))
        like = tops[draw % len(tops)]
        found.append(Mask("random_by_layer", None, fraction, draw, random_by_layer(like, rng)))
    return found


def window(draw: int, size: int | None, n: int, rng: np.random.Generator) -> np.ndarray:
    """The rows of `n` that random mask `draw` is evaluated on: `size` of them, or all.

    Windows of consecutive draws follow each other around a permutation made by `rng` (the same
    for every draw), so that all rows take part equally often.
    """
    if size is None or size >= n:
        return np.arange(n)
    return rng.permutation(n)[(draw * size + np.arange(size)) % n]
