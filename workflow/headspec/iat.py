"""Important attention-head training (IAT): a task's batch moves only the task's own heads.

Li et al. (2023): in the last delta of multi-task training, a batch of task t updates, of the rows
of W_Q, W_K and W_V, only those of the alpha most important heads of t. Every other parameter
trains as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
import torch

from headspec.batching import Examples
from headspec.devices import Device
from headspec.errors import ConfigError
from headspec.maps import bottom_heads, prune_count, top_heads
from headspec.masks import random_by_layer, random_heads
from headspec.multitask import MultiTask
from headspec.projections import Slice, head_slices
from headspec.seeds import derive
from headspec.training import Checkpoint, Trainer, branch_point, trainer
from headspec.updates import Updates, clip

if TYPE_CHECKING:
    from headspec.sections import Training


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


class Share:
    """The parts of the projections that the same tasks own, and a copy of them, one vector.

    Attributes
    ----------
    copy : (n,)
    """

    def __init__(self, parts: list[Slice]) -> None:
        self.parts = parts
        self.weights = [part.of(part.parameter.detach()) for part in parts]  # views of the model's
        self.copy = self.joined([part.parameter.detach() for part in parts])
        sizes = [weight.numel() for weight in self.weights]
        self.pieces = [p.view(w.shape) for p, w in zip(self.copy.split(sizes), self.weights, strict=True)]

    def joined(self, wholes: list[torch.Tensor]) -> torch.Tensor:
        """The parts, (n,), of tensors with the shapes of their parameters."""
        return torch.cat([part.of(w).flatten() for part, w in zip(self.parts, wholes, strict=True)])

    def moments(self, state: dict) -> dict:
        """Those of the parts, from an optimizer's `state`; none before its first step."""
        wholes = [state.get(part.parameter, {}) for part in self.parts]
        if not all(wholes):
            return {}
        averages = {name: self.joined([w[name] for w in wholes]) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": wholes[0]["step"].clone(), **averages}

    def read(self) -> None:
        """The copy from the model's weights."""
        torch._foreach_copy_(self.pieces, self.weights)

    def write(self) -> None:
        """The model's weights from the copy."""
        torch._foreach_copy_(self.weights, self.pieces)


class OwnHeads:
    """AdamW steps in which a task's batch moves, of the attention's projections, only its own heads.

    All the parts of the projections that the same tasks own are one parameter to the optimizer, a
    copy that is written back after each step: a few long vectors cost less than hundreds of short
    ones. Parts that the batch's task does not own get no
    gradient, so AdamW passes over them: weights, moments, step count and weight decay are untouched.
    A row that several heads share moves if the task owns one of them. The moments that the parts
    have had so far go with them. Gradients are clipped by the norm of all of them, as without IAT.

    Parameters
    ----------
    updates : those of the training so far
    slices : every head's part of the projections
    owned : task: bool (layers, heads)
    """

    def __init__(self, updates: Updates, slices: list[Slice], owned: dict[str, np.ndarray]) -> None:
        self.rest = updates
        parts: dict[tuple[str, ...], list[Slice]] = {}
        for part in slices:
            owners = tuple(task for task, mask in owned.items() if part.belongs(mask))
            parts.setdefault(owners, []).append(part)
        self.shares = {owners: Share(own) for owners, own in parts.items() if owners}
        self.wholes = list(dict.fromkeys(part.parameter for part in slices))
        restricted = set(map(id, self.wholes))
        self.others = [p for p in updates.parameters if id(p) not in restricted]
        decay = updates.optimizer.defaults["weight_decay"]
        copies = [share.copy for share in self.shares.values()]
        self.optimizer = torch.optim.AdamW(copies, weight_decay=decay, fused=True)
        for share in self.shares.values():
            moments = share.moments(updates.optimizer.state)
            if moments:
                self.optimizer.state[share.copy] = moments
        for parameter in self.wholes:
            updates.optimizer.state.pop(parameter, None)

    def step(self, task: str, rate: float) -> torch.Tensor:
        own = [share for owners, share in self.shares.items() if task in owners]
        for share in own:
            share.copy.grad = share.joined([gradient(part.parameter) for part in share.parts])
        norm = torch.nn.utils.get_total_norm([gradient(p) for p in self.rest.parameters])
        for parameter in self.wholes:
            parameter.grad = None
        moved = self.others + [share.copy for share in own]
        clip(moved, self.rest.clip, norm)
        for optimizer in (self.rest.optimizer, self.optimizer):
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        for share in own:
            share.write()
        return norm

    def state_dict(self) -> dict:
        return {"rest": self.rest.state_dict(), "own": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        """After the model's weights have been loaded."""
        self.rest.load_state_dict(state["rest"])
        self.optimizer.load_state_dict(state["own"])
        for share in self.shares.values():
            share.read()


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Its gradient; zeros where the loss does not depend on it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


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
    """The state of plain training before its last `delta`, from an earlier `state`.

    Raises
    ------
    ConfigError
        That part of the training is no step.
    ValueError
        `state` is a later one.
    """
    with trainer(model, examples, settings, None, seed, device, parts) as run:
        point, n = branch_point(len(run.steps), delta), len(run.steps)
        if delta and point == n:
            raise ConfigError(
                f"iat: delta {delta:g} of {n} steps is no step; expected at least {0.5 / n:.2g}"
            )
        run.restore(checkpoint.load(device.name) or state)
        if len(run.history) > point:
            raise ValueError(f"the state is that after step {len(run.history)}, expected {point} at most")
        run.run(point, checkpoint)
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
    with trainer(model, examples, settings, None, seed, device, parts) as run:
        run.restore(state)
        with restriction.applied(run):
            done = checkpoint.load(device.name)
            if done:
                run.restore(done)
            run.run(len(run.steps), checkpoint)
        return run.frame()
