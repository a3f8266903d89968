"""Important attention-head training (IAT): a task's batch moves only the task's own heads.

Li et al. (2023): in the last delta of multi-task training, a batch of task t updates, of the rows
of W_Q, W_K and W_V, only those of the alpha most important heads of t. Every other parameter
trains as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import torch

from headspec.batching import Examples
from headspec.devices import Device
from headspec.errors import ConfigError
from headspec.maps import bottom_heads, prune_count, top_heads
from headspec.masks import random_by_layer, random_heads
from headspec.multitask import MultiTask
from headspec.projections import Slice, head_slices, moved
from headspec.sections import Training
from headspec.seeds import derive
from headspec.training import Checkpoint, Trainer, Updates, branch_point, trainer


def owned_heads(maps: dict[str, np.ndarray], heads: str, alpha: float, seed: int) -> dict[str, np.ndarray]:
    """The heads that each task may move, bool (layers, heads), as many for every choice.

    Parameters
    ----------
    maps : task: importance (layers, heads)
    heads : {"top", "bottom", "random", "random-by-layer", "other"}
        The task's most important heads; its least important; random ones; random ones, in each
        layer as many as the task's most important; the most important of another task. Random
        choices are made by `seed` and differ between tasks.
    alpha : the part of all heads that a task owns

    Raises
    ------
    ConfigError
        That part is no head.
    """
    shape = next(iter(maps.values())).shape
    n = prune_count(alpha, shape[0] * shape[1])
    if n == 0:
        raise ConfigError(f"iat: alpha {alpha:g} of {shape[0]} x {shape[1]} heads is no head")
    top = {task: top_heads(importance, n) for task, importance in maps.items()}
    if heads == "top":
        return top
    if heads == "bottom":
        return {task: bottom_heads(importance, n) for task, importance in maps.items()}
    if heads == "other":
        tasks = list(maps)
        away = 1 + derive(seed, "iat other") % (len(tasks) - 1)
        return {task: top[tasks[(i + away) % len(tasks)]] for i, task in enumerate(tasks)}
    rngs = {task: np.random.default_rng(derive(seed, "iat", heads, task)) for task in maps}
    if heads == "random":
        return {task: random_heads(shape, n, rng) for task, rng in rngs.items()}
    return {task: random_by_layer(top[task], rng) for task, rng in rngs.items()}


class OwnHeads:
    """AdamW steps in which a task's batch moves, of the attention's projections, only its own heads.

    Each head's rows are parameters of their own to the optimizer, views of the whole projection.
    Those that the batch's task does not own get no gradient, so AdamW passes over them: weights,
    moments, step count and weight decay are untouched. A row that several heads share moves if
    the task owns one of them. The moments that the rows have had so far go with them. The gradient
    that is clipped is that of what moves.

    Parameters
    ----------
    updates : those of the training so far
    slices : every head's part of the projections
    owned : task: bool (layers, heads)
    """

    def __init__(self, updates: Updates, slices: list[Slice], owned: dict[str, np.ndarray]) -> None:
        self.rest, self.slices = updates, slices
        self.rows = [part.of(part.parameter.detach()) for part in slices]
        self.owned = {task: moved(slices, mask) for task, mask in owned.items()}
        self.wholes = list(dict.fromkeys(part.parameter for part in slices))
        restricted = set(map(id, self.wholes))
        self.others = [p for p in updates.parameters if id(p) not in restricted]
        self.optimizers = []
        for dense in (True, False):  # the fused step takes dense tensors, which columns are not
            members = [i for i, rows in enumerate(self.rows) if rows.is_contiguous() == dense]
            if members:
                self.optimizers.append(self._optimizer(members, dense))
        for parameter in self.wholes:
            updates.optimizer.state.pop(parameter, None)

    def _optimizer(self, members: list[int], fused: bool) -> torch.optim.Optimizer:
        """AdamW of some of the rows, with their part of the moments of the whole projections."""
        decay = self.rest.optimizer.defaults["weight_decay"]
        rows = [self.rows[i] for i in members]
        optimizer = torch.optim.AdamW(rows, weight_decay=decay, fused=fused, foreach=not fused)
        for i in members:
            part = self.slices[i]
            moments = self.rest.optimizer.state.get(part.parameter)
            if moments:
                step = moments["step"]
                optimizer.state[self.rows[i]] = {
                    "step": step.clone() if fused else step.cpu().clone(),
                    "exp_avg": part.of(moments["exp_avg"]).clone(),
                    "exp_avg_sq": part.of(moments["exp_avg_sq"]).clone(),
                }
        return optimizer

    def step(self, task: str, rate: float) -> None:
        own = [self.rows[i] for i in self.owned[task]]
        for i in self.owned[task]:
            gradient = self.slices[i].parameter.grad
            self.rows[i].grad = None if gradient is None else self.slices[i].of(gradient)
        for parameter in self.wholes:
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.others + own, self.rest.clip)
        for optimizer in [self.rest.optimizer, *self.optimizers]:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()

    def state_dict(self) -> dict:
        return {"rest": self.rest.state_dict(), "rows": [o.state_dict() for o in self.optimizers]}

    def load_state_dict(self, state: dict) -> None:
        self.rest.load_state_dict(state["rest"])
        for optimizer, own in zip(self.optimizers, state["rows"], strict=True):
            optimizer.load_state_dict(own)


class Restriction(Protocol):
    """What is changed of a run before it goes on, and put right at its end."""

    def applied(self, run: Trainer) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class Own:
    """Whose heads learn what: `owned_heads`, and in which projections (`qkv` or `qkvo`)."""

    heads: dict[str, np.ndarray]
    projections: str

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        """Inside it, batches of `run` move their task's own heads only."""
        if not all(mask.all() for mask in self.heads.values()):  # alpha = 1 is plain multi-task training
            assert isinstance(run.updates, Updates)
            slices = head_slices(run.model.encoder, run.model.gates, self.projections)
            run.updates = OwnHeads(run.updates, slices, self.heads)
        yield


def branch(
    model: MultiTask,
    examples: dict[str, Examples],
    settings: Training,
    delta: float,
    seed: int,
    device: Device,
    state: dict,
    checkpoint: Checkpoint,
    parts: int = 1,
) -> dict:
    """The state of plain training before its last `delta`, from an earlier `state`."""
    with trainer(model, examples, settings, False, seed, device, parts) as run:
        run.restore(checkpoint.load(device.name) or state)
        run.run(branch_point(len(run.steps), delta), checkpoint)
        return run.state()


def retrain(
    model: MultiTask,
    examples: dict[str, Examples],
    settings: Training,
    restriction: Restriction,
    seed: int,
    device: Device,
    state: dict,
    checkpoint: Checkpoint,
    parts: int = 1,
) -> pd.DataFrame:
    """From a `state` of plain training to its end, under a restriction of what learns.

    Order and number of the batches, learning rates, dropout masks and moments are those that plain
    training would have gone on with.

    Parameters
    ----------
    state : as `branch` or `train` left it
    restriction : `Own`, or `headspec.lora.LoRA`

    Returns
    -------
    frame : the table `training`, steps before the branch included
    """
    with trainer(model, examples, settings, False, seed, device, parts) as run:
        run.restore(state)
        with restriction.applied(run):
            done = checkpoint.load(device.name)
            if done:
                run.restore(done)
            run.run(len(run.steps), checkpoint)
        return run.frame()
