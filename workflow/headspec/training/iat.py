"""Important attention-head training (IAT): a batch updates only the heads that its task owns.

Li et al. (2023): in the last fraction delta of multi-task training, a batch of task t updates only
those rows of W_Q, W_K and W_V that belong to the fraction alpha of heads most important to t. All
other parameters train as before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from headspec.errors import ConfigError
from headspec.head_arrays import existing
from headspec.heads.masks import random_by_layer, random_heads
from headspec.heads.ranking import bottom_heads, prune_count, top_heads
from headspec.models.multitask import MultiTask
from headspec.registry import require
from headspec.seeds import derive
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, Trainer, trainer
from headspec.training.schedule import branch_point, learning_rates

#: heads that a task may own
CHOICES = ("top", "bottom", "random", "random-by-layer", "other", "unshared", "even", "all")


@dataclass(frozen=True)
class Restriction(ABC):
    """A limit on what batches update after the branch; `RESTRICTION` in a variant's module is a subclass.

    Attributes
    ----------
    heads : result of `owned_heads`
    projections : "qkv" or "qkvo", with W_O
    seed : seed of the run
    variant : how a variant differs from IAT (`Job.variant_settings` in `headspec.pipeline.jobs.job`)
    """

    heads: dict[str, np.ndarray]
    projections: str
    seed: int = 0
    variant: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def applied(self, run: Trainer) -> AbstractContextManager[None]:
        """Train `run` under the restriction inside the context; the model is an ordinary one on exit."""


def owned_heads(
    importances: dict[str, np.ndarray], heads: str, alpha: float | None, seed: int
) -> dict[str, np.ndarray]:
    """Return the heads that batches of each task may update, bool (layers, heads).

    Their number is the same for every choice except `unshared`, `even` and `all`. Raises ConfigError if there
    is no such choice, or `alpha` is less than one head.

    Parameters
    ----------
    importances : task: importance (layers, heads), nan where there is no head
    heads : one of `CHOICES`
        `top`, `bottom`: the task's most or least important heads; `random`: random heads, different for
        each task; `random-by-layer`: with the layer counts of `top`; `other`: the top heads of another task;
        `unshared`: top heads that are top for no other task; `even`: `shares`; `all`: plain training.
    alpha : fraction of all heads that a task owns; not used for `even` and `all`; None means `all`
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
    """Divide heads evenly among tasks, bool (layers, heads) each, by importances (layers, heads).

    Tasks take turns to choose the head that matters most to them; remaining heads have no owner.
    """
    left = existing(next(iter(importances.values())))
    owned = {task: np.zeros_like(left) for task in importances}
    for _ in range(int(left.sum()) // len(importances)):
        for task, importance in importances.items():
            chosen = top_heads(np.where(left, importance, np.nan), 1)
            owned[task] |= chosen
            left &= ~chosen
    return owned


def all_own_every_head(heads: dict[str, np.ndarray], exists: np.ndarray) -> bool:
    """Return whether every task owns all heads in `exists`, bool (layers, heads): plain training."""
    return all((mask == exists).all() for mask in heads.values())


@dataclass(frozen=True)
class End:
    """Training under a `restriction`, with or without dropout, and with new learning rates if given a `peak`.

    Without dropout, the model is in evaluation mode. With a `peak`, the learning rate rises again to it over
    the fraction `training.warmup` of the remaining steps, and decays according to `training.decay`; with
    None, rates continue unchanged.
    """

    restriction: Restriction
    dropout: bool = True
    peak: float | None = None

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        """Train `run` in this way inside the context."""
        point, settings = len(run.history), run.settings
        if self.peak is not None:
            left = len(run.rates) - point
            run.rates[point:] = learning_rates(left, self.peak, settings.warmup, settings.decay)
        with self.restriction.applied(run):
            run.model.train(self.dropout)
            yield
        run.model.train()


def branch(
    model: MultiTask, setup: Setup, delta: float, state: dict[str, Any], checkpoint: Checkpoint
) -> dict[str, Any]:
    """Continue plain training from `state` to the point where its last `delta` begins; return its state.

    `delta` is the fraction of steps after the branch, `state` a `Trainer.state` of an earlier step. Raises
    ConfigError if `delta` is less than one step, ValueError if `state` is from a later step.
    """
    with trainer(model, setup) as run:
        point, n = branch_point(len(run.steps), delta), len(run.steps)
        if delta and point == n:
            raise ConfigError(
                f"iat: delta {delta:g} of {n} steps is less than one step; expected at least {0.5 / n:.2g}"
            )
        run.restore(checkpoint.load() or state)
        if len(run.history) > point:
            raise ValueError(f"got the state after step {len(run.history)}, expected at most step {point}")
        run.run(point, checkpoint)
        return run.state()


def retrain(
    model: MultiTask,
    setup: Setup,
    restriction: Restriction | End,
    state: dict[str, Any],
    checkpoint: Checkpoint,
) -> pd.DataFrame:
    """Continue training from `state` to its end, under a restriction.

    Batches, their order and moments are as in plain training; so are learning rates and dropout masks, unless
    an `End` changes them. Returns the table `training`, including the steps before the branch. `restriction`
    is from a module of `headspec.training.variants`, or an `End` around one; `state` is from `branch`, or the
    trunk of `loop.train`.
    """
    with trainer(model, setup) as run:
        run.restore(state)
        with restriction.applied(run):
            interrupted = checkpoint.load()
            if interrupted:
                run.restore(interrupted)
            run.run(len(run.steps), checkpoint)
        return run.frame()
