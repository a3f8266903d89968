"""Order of the batches of all tasks, learning rates, and where runs branch off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headspec.registry import Registry, require

if TYPE_CHECKING:
    from headspec.models.batching import Examples


def buckets(lengths: np.ndarray, size: int, rng: np.random.Generator, pool: int = 50) -> list[np.ndarray]:
    """Return one epoch of shuffled batches of `size` rows of similar length, given `lengths` (examples,).

    Rows are shuffled, sorted by length within pools of `pool` batches, and cut into batches, which are
    shuffled in turn. Each row occurs once, there is little padding, and batches differ between epochs.
    """
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), pool * size):
        pooled = order[start : start + pool * size]
        pooled = pooled[np.argsort(lengths[pooled], kind="stable")]
        batches += [pooled[i : i + size] for i in range(0, len(pooled), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True)
class Step:
    """One optimizer step: the epoch (from 0), the task and the rows of its batch."""

    epoch: int
    task: str
    rows: np.ndarray


def epoch_steps(examples: dict[str, Examples], size: int) -> int:
    """Return the number of steps in an epoch, with batches of `size` examples."""
    return sum(-(-len(rows) // size) for rows in examples.values())


def schedule(
    examples: dict[str, Examples], size: int, epochs: int, sampling: str, rng: np.random.Generator
) -> list[Step]:
    """Return all steps of training, in order.

    With n_t batches of task t, an epoch has sum(n_t) steps. `proportional` takes each batch once,
    in random order. `sqrt` and `annealed` draw the task of each step with probability proportional
    to n_t ** a, where a = 0.5, or a = 1 - 0.8 e / (E - 1) in epoch e = 0 ... E - 1 (Stickland &
    Murray 2019); a task's batches are reshuffled when they run out.
    """
    require("sampling", sampling, ("proportional", "sqrt", "annealed"))
    tasks = list(examples)
    counts = np.array([-(-len(examples[t]) // size) for t in tasks])
    remaining: dict[str, list[np.ndarray]] = {t: [] for t in tasks}
    steps = []
    for epoch in range(epochs):
        if sampling == "proportional":
            order = rng.permutation(np.repeat(np.arange(len(tasks)), counts))
        else:
            power = 0.5 if sampling == "sqrt" else 1 - 0.8 * epoch / max(epochs - 1, 1)
            weight = counts.astype(float) ** power
            order = rng.choice(len(tasks), size=counts.sum(), p=weight / weight.sum())
        for t in order:
            task = tasks[t]
            if not remaining[task]:
                remaining[task] = buckets(examples[task].lengths, size, rng)
            steps.append(Step(epoch, task, remaining[task].pop()))
    return steps


def branch_point(steps: int, delta: float) -> int:
    """Return the first step (from 0) of the last fraction `delta` of `steps`."""
    return steps - round(delta * steps)


#: `training.decay`: the rate of a step from the peak, the step (from 0) and the number of steps after warmup
DECAYS: Registry[Callable[[float, int, int], float]] = Registry(
    "decay",
    {
        "linear": lambda peak, step, steps: peak * (steps - step) / steps,
        "cosine": lambda peak, step, steps: peak * (1 + math.cos(math.pi * step / steps)) / 2,  # half period
        "constant": lambda peak, step, steps: peak,
    },
)


def learning_rate(step: int, steps: int, peak: float, warmup: float, decay: str) -> float:
    """Return the rate of `step` (from 0): linear warmup over the fraction `warmup` of steps, then a decay."""
    decayed, rise = DECAYS[decay], round(warmup * steps)
    return peak * (step + 1) / rise if step < rise else decayed(peak, step - rise, steps - rise)


def learning_rates(steps: int, peak: float, warmup: float, decay: str) -> list[float]:
    """Return the rates of all `steps` (see `learning_rate`)."""
    return [learning_rate(step, steps, peak, warmup, decay) for step in range(steps)]


def rate_share(
    delta: float, learning_rate: float, warmup: float, decay: str, peak: float | None, steps: int = 10_000
) -> float:
    """Return the sum of learning rates in the last fraction `delta` of `steps`, relative to the sum over all.

    `peak` is the peak of rewarmed rates after the branch; None if rates continue unchanged.
    """
    rates = learning_rates(steps, learning_rate, warmup, decay)
    point = branch_point(steps, delta)
    if peak is not None:
        rates[point:] = learning_rates(steps - point, peak, warmup, decay)
    return sum(rates[point:]) / sum(rates)
