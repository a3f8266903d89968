"""The heads that a task owns: its batches may update them after the branch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headspec.attention import existing
from headspec.errors import ConfigError
from headspec.heads.masks import random_by_layer, random_heads
from headspec.heads.ranking import bottom_heads, prune_count, top_heads
from headspec.registry import require
from headspec.seeds import derive

if TYPE_CHECKING:
    from headspec.training.loop import Trainer

#: heads that a task may own
CHOICES = ("top", "bottom", "random", "random-by-layer", "other", "unshared", "even", "all")


@dataclass(frozen=True)
class Restriction(ABC):
    """What batches may update after the branch; `RESTRICTION` of a module of variants is a subclass.

    Attributes
    ----------
    heads : result of `owned_heads`
    projections : "qkv" or "qkvo", with W_O
    seed : seed of the run
    variant : settings of a variant (`headspec.config.variants.settings`)
    """

    heads: dict[str, np.ndarray]
    projections: str
    seed: int = 0
    variant: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def applied(self, run: Trainer) -> AbstractContextManager[None]:
        """Train `run` under the restriction inside the context; on exit the model is an ordinary one."""


def owned_heads(
    importances: dict[str, np.ndarray], heads: str, alpha: float | None, seed: int
) -> dict[str, np.ndarray]:
    """Return the heads that batches of each task may update, bool (layers, heads).

    Their number is the same in every case except `unshared`, `even` and `all`. Raises ConfigError if there is
    no such choice of heads, or `alpha` is less than one head.

    Parameters
    ----------
    importances : task: importance (layers, heads), nan where there is no head
    heads : one of `CHOICES`
        `top`, `bottom`: the task's most or least important heads; `random`: random heads, different for
        each task; `random-by-layer`: with the layer counts of `top`; `other`: the top heads of another task;
        `unshared`: top heads that are top for no other task; `even`: `shares`; `all`: plain training.
    alpha : fraction of all heads that a task owns; not used for `even` and `all`
    """
    require("choice of heads", heads, CHOICES)
    exists = existing(next(iter(importances.values())))
    if heads == "even":
        return shares(importances)
    if heads == "all" or alpha is None:
        return {task: exists.copy() for task in importances}
    n = prune_count(alpha, int(exists.sum()))
    if n == 0:
        raise ConfigError(f"iat: alpha {alpha:g} of {exists.sum()} heads is less than one head")
    top = {task: top_heads(importance, n) for task, importance in importances.items()}
    if heads == "top":
        return top
    if heads == "unshared":
        owners = np.sum(list(top.values()), axis=0)
        return {task: mask & (owners == 1) for task, mask in top.items()}
    if heads == "bottom":
        return {task: bottom_heads(importance, n) for task, importance in importances.items()}
    if heads == "other":
        tasks = list(importances)
        offset = 1 + derive(seed, "iat other") % (len(tasks) - 1)
        return {task: top[tasks[(i + offset) % len(tasks)]] for i, task in enumerate(tasks)}
    rngs = {task: np.random.default_rng(derive(seed, "iat", heads, task)) for task in importances}
    if heads == "random":
        return {task: random_heads(exists, n, rng) for task, rng in rngs.items()}
    return {task: random_by_layer(top[task], exists, rng) for task, rng in rngs.items()}


def shares(importances: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Divide heads evenly: tasks take turns to choose what matters most to them; the rest has no owner."""
    left = existing(next(iter(importances.values())))
    owned = {task: np.zeros_like(left) for task in importances}
    for _ in range(int(left.sum()) // len(importances)):
        for task, importance in importances.items():
            chosen = top_heads(np.where(left, importance, np.nan), 1)
            owned[task] |= chosen
            left &= ~chosen
    return owned


def plain(heads: dict[str, np.ndarray], exists: np.ndarray) -> bool:
    """Return whether every task owns every existing head, which is plain multi-task training."""
    return all((mask == exists).all() for mask in heads.values())
