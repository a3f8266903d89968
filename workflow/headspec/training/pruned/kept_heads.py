"""Choices of the heads that a pruned run keeps: the first of a ranking, random ones, or a plugin's."""

from collections.abc import Sequence

import numpy as np

from headspec import plugins
from headspec.attention import existing
from headspec.errors import ConfigError
from headspec.heads.masks import random_by_layer, random_heads
from headspec.heads.ranking import prune_count, shared_map, top_heads
from headspec.models.gates import HeadGates
from headspec.seeds import derive
from headspec.training.pruned.gated import Sets, fixed_first


def count_kept(fraction: float, heads: int, fixed: int = 0) -> int:
    """Return how many heads stay open if `fraction` of `heads` does, with all `fixed` others."""
    return fixed + heads - prune_count(1 - fraction, heads)


def fixed_layers(gates: HeadGates, kinds: Sequence[str]) -> np.ndarray:
    """Return the layers whose heads never close, bool (layers,): those of a kind not in `kinds`, if given."""
    return np.array([bool(kinds) and gates.kind(layer) not in kinds for layer in range(gates.layers)])


def ranked(
    sets: Sets, maps: dict[str, np.ndarray], count: int, fixed: np.ndarray | bool = False
) -> np.ndarray:
    """Return the first `count` heads of each set, bool (sets, layers, heads).

    `maps` has (layers, heads) per task; the largest values are kept first, and tasks with a common set share
    a map (`shared_map`). Heads of the layers in `fixed`, bool (layers,), come before all others.
    """
    shared = [shared_map([maps[task] for task in sets.tasks(i)]) for i in range(len(sets.names))]
    return np.stack([top_heads(fixed_first(scores, fixed), count) for scores in shared])


def drawn(
    sets: Sets,
    maps: dict[str, np.ndarray],
    count: int,
    by_layer: bool,
    seed: int,
    fixed: np.ndarray | bool = False,
) -> np.ndarray:
    """Return `count` random heads of each set, bool (sets, layers, heads); tasks have different heads.

    With `by_layer`, each layer keeps as many as `ranked` keeps by the `maps`. Layers in `fixed`, bool
    (layers,), keep all their heads.
    """
    first = ranked(sets, maps, count, fixed)
    named = [sets.tasks(i) for i in range(len(sets.names))]
    rngs = [np.random.default_rng(derive(seed, "kept at random", *tasks)) for tasks in named]
    exists = existing(maps[named[0][0]])
    if by_layer:
        return np.stack([random_by_layer(of, exists, rng) for of, rng in zip(first, rngs, strict=True)])
    kept = exists & np.reshape(fixed, (-1, 1))
    return np.stack([kept | random_heads(exists & ~kept, count - int(kept.sum()), rng) for rng in rngs])


def plugged(
    sets: Sets, maps: dict[str, np.ndarray], count: int, source: str, seed: int, fixed: np.ndarray
) -> np.ndarray:
    """Return `count` heads of each set chosen by a plugin, bool (sets, layers, heads).

    `source` names its function (`headspec.plugins.pruning_method`), which is given the heads that can close.
    Layers in `fixed`, bool (layers,), keep all. Raises ConfigError if it does not return that many heads.
    """
    choose, kept = plugins.function(source), []
    for i in range(len(sets.names)):
        importance = shared_map([maps[task] for task in sets.tasks(i)])
        kept_here = existing(importance) & fixed[:, None]
        free, n = importance[~fixed], count - int(kept_here.sum())
        chosen = choose(free, n, np.random.default_rng(derive(seed, choose.__name__, *sets.tasks(i))))
        plugins.check(chosen, free.shape, source)
        if chosen.dtype != bool or chosen.sum() != n:
            got = f"{chosen.sum()} heads" if chosen.dtype == bool else f"an array of type {chosen.dtype}"
            raise ConfigError(f"{source}: returned {got}, expected {n} heads as bool")
        kept_here[~fixed] = chosen
        kept.append(kept_here)
    return np.stack(kept)
