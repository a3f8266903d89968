"""Important attention-head training (IAT): a batch updates only the heads of its task.

Li et al. (2023): in the last fraction delta of multi-task training, a batch of task t updates only
those rows of W_Q, W_K and W_V that belong to the fraction alpha of heads most important to t. All
other parameters train as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
import torch

from headspec.errors import ConfigError
from headspec.heads.masks import random_by_layer, random_heads
from headspec.heads.ranking import bottom_heads, prune_count, top_heads
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.head_parameters import Slice, head_slices
from headspec.models.multitask import MultiTask
from headspec.seeds import derive
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Trainer, trainer
from headspec.training.schedule import branch_point
from headspec.training.updates import Updates, clip

if TYPE_CHECKING:
    from headspec.config.sections.training import Training


def owned_heads(
    importances: dict[str, np.ndarray], heads: str, alpha: float, seed: int
) -> dict[str, np.ndarray]:
    """The heads that batches of each task may update, bool (layers, heads); the same number in every case.

    Parameters
    ----------
    importances : task: importance (layers, heads)
    heads : {"top", "bottom", "random", "random-by-layer", "other"}
        The task's most important heads; its least important; random heads; random heads with the
        layer counts of the task's most important; the most important heads of another task. Random
        choices depend on `seed` and differ between tasks.
    alpha : fraction of all heads that a task owns

    Raises
    ------
    ConfigError
        The fraction is less than one head.
    """
    shape = next(iter(importances.values())).shape
    n = prune_count(alpha, shape[0] * shape[1])
    if n == 0:
        raise ConfigError(f"iat: alpha {alpha:g} of {shape[0]} x {shape[1]} heads is less than one head")
    top = {task: top_heads(importance, n) for task, importance in importances.items()}
    if heads == "top":
        return top
    if heads == "bottom":
        return {task: bottom_heads(importance, n) for task, importance in importances.items()}
    if heads == "other":
        tasks = list(importances)
        offset = 1 + derive(seed, "iat other") % (len(tasks) - 1)
        return {task: top[tasks[(i + offset) % len(tasks)]] for i, task in enumerate(tasks)}
    rngs = {task: np.random.default_rng(derive(seed, "iat", heads, task)) for task in importances}
    if heads == "random":
        return {task: random_heads(shape, n, rng) for task, rng in rngs.items()}
    return {task: random_by_layer(top[task], rng) for task, rng in rngs.items()}


class SliceGroup:
    """The slices of the projections that the same tasks own, with a copy joined into one vector.

    Attributes
    ----------
    copy : (n,)
    """

    def __init__(self, slices: list[Slice]) -> None:
        self.slices = slices
        self.weights = [s.of(s.parameter.detach()) for s in slices]  # views of the model's weights
        self.copy = self.joined([s.parameter.detach() for s in slices])
        sizes = [weight.numel() for weight in self.weights]
        chunks = self.copy.split(sizes)
        self.views = [chunk.view(w.shape) for chunk, w in zip(chunks, self.weights, strict=True)]

    def joined(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """The slices, (n,), of tensors that have the shapes of the slices' parameters."""
        return torch.cat([s.of(tensor).flatten() for s, tensor in zip(self.slices, tensors, strict=True)])

    def moments(self, state: dict) -> dict:
        """The slices' moments in an optimizer's `state`; empty before its first step."""
        states = [state.get(s.parameter, {}) for s in self.slices]
        if not all(states):
            return {}
        averages = {name: self.joined([each[name] for each in states]) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": states[0]["step"].clone(), **averages}

    def read(self) -> None:
        """Copy from the model's weights."""
        torch._foreach_copy_(self.views, self.weights)

    def write(self) -> None:
        """Copy to the model's weights."""
        torch._foreach_copy_(self.weights, self.views)


class OwnHeads:
    """AdamW steps in which a batch updates, in the attention projections, only the heads its task owns.

    To the optimizer, all slices that the same tasks own are one parameter, a copy that is written
    back after each step: a few long vectors cost less than hundreds of short ones. Slices that the
    batch's task does not own get no gradient, so AdamW skips them: their weights, moments and step
    count stay the same, and no weight decay applies. A row that several heads share is updated if
    the task owns any of these heads. The slices keep the moments of the training so far. Gradients
    are clipped by the norm over all parameters, as without IAT.

    Parameters
    ----------
    updates : those of the training so far
    slices : every head's slices of the projections
    owned : task: bool (layers, heads)
    """

    def __init__(self, updates: Updates, slices: list[Slice], owned: dict[str, np.ndarray]) -> None:
        self.updates = updates
        by_owners: dict[tuple[str, ...], list[Slice]] = {}
        for s in slices:
            owners = tuple(task for task, mask in owned.items() if s.belongs(mask))
            by_owners.setdefault(owners, []).append(s)
        self.groups = {owners: SliceGroup(of_owners) for owners, of_owners in by_owners.items() if owners}
        self.restricted = list(dict.fromkeys(s.parameter for s in slices))
        restricted = set(map(id, self.restricted))
        self.unrestricted = [p for p in updates.parameters if id(p) not in restricted]
        decay = updates.optimizer.defaults["weight_decay"]
        copies = [group.copy for group in self.groups.values()]
        self.optimizer = torch.optim.AdamW(copies, weight_decay=decay, fused=True)
        for group in self.groups.values():
            moments = group.moments(updates.optimizer.state)
            if moments:
                self.optimizer.state[group.copy] = moments
        for parameter in self.restricted:
            updates.optimizer.state.pop(parameter, None)

    def step(self, task: str, rate: float) -> torch.Tensor:
        owned = [group for owners, group in self.groups.items() if task in owners]
        for group in owned:
            group.copy.grad = group.joined([gradient(s.parameter) for s in group.slices])
        norm = torch.nn.utils.get_total_norm([gradient(p) for p in self.updates.parameters])
        for parameter in self.restricted:
            parameter.grad = None
        updated = self.unrestricted + [group.copy for group in owned]
        clip(updated, self.updates.clip, norm)
        for optimizer in (self.updates.optimizer, self.optimizer):
            for param_group in optimizer.param_groups:
                param_group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        for group in owned:
            group.write()
        return norm

    def state_dict(self) -> dict:
        return {"updates": self.updates.state_dict(), "owned": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        """Restore; the model's weights must have been loaded before."""
        self.updates.load_state_dict(state["updates"])
        self.optimizer.load_state_dict(state["owned"])
        for group in self.groups.values():
            group.read()


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Its gradient; zeros if the loss does not depend on it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


class Restriction(Protocol):
    """A restriction of what a run trains from here on."""

    def applied(self, run: Trainer) -> AbstractContextManager[None]:
        """Context in which `run` trains under the restriction; on exit the model is an ordinary one."""


@dataclass(frozen=True)
class Own:
    """Batches update only the heads that their task owns.

    Attributes
    ----------
    heads : result of `owned_heads`
    projections : {"qkv", "qkvo"}, the projections that this applies to, with or without W_O
    """

    heads: dict[str, np.ndarray]
    projections: str

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        """Context in which batches of `run` update only the heads that their task owns."""
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
    microbatches: int = 1,
) -> dict:
    """Continue plain training from `state` to the point where its last `delta` begins.

    Parameters
    ----------
    delta : fraction of the steps that are left after the branch
    state : `Trainer.state` of an earlier step
    microbatches : as in `headspec.training.loop.trainer`

    Returns
    -------
    state : of the training at that point

    Raises
    ------
    ConfigError
        `delta` is less than one step.
    ValueError
        `state` is from a later step.
    """
    with trainer(model, examples, settings, None, seed, device, microbatches) as run:
        point, n = branch_point(len(run.steps), delta), len(run.steps)
        if delta and point == n:
            raise ConfigError(
                f"iat: delta {delta:g} of {n} steps is less than one step; expected at least {0.5 / n:.2g}"
            )
        run.restore(checkpoint.load(device.name) or state)
        if len(run.history) > point:
            raise ValueError(f"got the state after step {len(run.history)}, expected at most step {point}")
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
    microbatches: int = 1,
) -> pd.DataFrame:
    """Continue training from `state` to its end, under a restriction of what is trained.

    Batches and their order, learning rates, dropout masks and moments are those with which plain
    training would have continued.

    Parameters
    ----------
    restriction : `Own`, or `headspec.training.lora.LoRA`
    state : as returned by `branch`, or kept by `headspec.training.loop.train`
    microbatches : as in `headspec.training.loop.trainer`

    Returns
    -------
    frame : the table `training`, including the steps before the branch
    """
    with trainer(model, examples, settings, None, seed, device, microbatches) as run:
        run.restore(state)
        with restriction.applied(run):
            interrupted = checkpoint.load(device.name)
            if interrupted:
                run.restore(interrupted)
            run.run(len(run.steps), checkpoint)
        return run.frame()
