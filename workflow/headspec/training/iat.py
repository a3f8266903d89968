"""Important attention-head training (IAT): a batch updates only the heads of its task.

Li et al. (2023): in the last fraction delta of multi-task training, a batch of task t updates only
those rows of W_Q, W_K and W_V that belong to the fraction alpha of heads most important to t. All
other parameters train as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd

from headspec.errors import ConfigError
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, Trainer, trainer
from headspec.training.schedule import branch_point, learning_rates
from headspec.training.variants.owned import Restriction


@dataclass(frozen=True)
class End:
    """Plain training with other dropout or learning rates; without dropout, the model is in evaluation mode.

    With a `peak`, the learning rate rises again to it over the fraction `training.warmup` of the remaining
    steps, and decays according to `training.decay`; with None, rates continue unchanged.
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


def branch(model: MultiTask, setup: Setup, delta: float, state: dict, checkpoint: Checkpoint) -> dict:
    """Continue plain training from `state` to the point where its last `delta` begins, and return its state.

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
    model: MultiTask, setup: Setup, restriction: Restriction | End, state: dict, checkpoint: Checkpoint
) -> pd.DataFrame:
    """Continue training from `state` to its end, under a restriction of what is trained.

    Batches, their order, moments and, except with an `End`, learning rates and dropout masks are as in plain
    training. Returns the table `training`, including the steps before the branch. `restriction` is from a
    module of `headspec.training.variants`, or an `End`; `state` is from `branch`, or one that `loop.train`
    kept.
    """
    with trainer(model, setup) as run:
        run.restore(state)
        with restriction.applied(run):
            interrupted = checkpoint.load()
            if interrupted:
                run.restore(interrupted)
            run.run(len(run.steps), checkpoint)
        return run.frame()
