"""Replacements for heads that are closed while a task's examples are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from headspec.config.values import MEAN, ZERO
from headspec.errors import DataError
from headspec.heads.ablations import Close, HalfMeans, Instead, aligned, closed_by
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.internals.resuming import Replacing, Resuming
from headspec.models.multitask import MultiTask
from headspec.seeds import derive

#: takes a batch and returns what closes heads there
Closing = Callable[[Batch], Close]


def closing(model: MultiTask, task: str, examples: Examples, ablation: str, device: Device) -> Closing | None:
    """Return a function from a batch of a task's examples to what closes heads there; None if gates do.

    Means are over the tokens of the random half of the examples that lacks the example itself. Resampled
    vectors are those of the example half of all examples further on in a random order. The caller enters
    autocast. Raises DataError if there is no other example.
    """
    if ablation == ZERO:
        return None
    n = len(examples)
    if n < 2:
        raise DataError(
            f"pruning.ablation: got '{ablation}' with {n} validation example of task '{task}'; expected at "
            "least 2, since vectors of other examples replace heads"
        )
    order, passes = np.random.default_rng(derive(0, "ablation", task)).permutation(n), Replacing(model.gates)
    if ablation == MEAN:
        half = np.zeros(n, dtype=int)
        half[order] = np.arange(n) % 2
        means = half_means(model, examples, order, half, passes, device)
        return lambda batch: partial(closed_by, model.gates, means.others(half[batch.rows]).__getitem__)
    other = np.zeros(n, dtype=int)
    other[order] = np.roll(order, n // 2)

    def resampled(batch: Batch) -> Close:
        donors = examples.batch(other[batch.rows], device.name)
        return partial(closed_by, model.gates, of_others(model, batch, donors, passes))

    return resampled


@torch.no_grad()
def half_means(
    model: MultiTask,
    examples: Examples,
    rows: np.ndarray,
    half: np.ndarray,
    passes: Resuming | Replacing,
    device: Device,
) -> HalfMeans:
    """Return the means of each half of `rows` over attending tokens; `half` (examples,) is 0 or 1."""
    means = HalfMeans()
    for batch, _ in examples.in_batches(lambda b: passes.record(partial(model.read, b)), rows, device):
        means.add(passes.contexts, dict(enumerate(model.attending(batch))), half[batch.rows])
    return means


@torch.no_grad()
def of_others(model: MultiTask, batch: Batch, donors: Batch, passes: Resuming | Replacing) -> Instead:
    """Return a function from a row to context vectors of other examples, (batch, tokens, heads, size).

    Example i gets those of example i of `donors`. Tokens are aligned from the end if the last one is
    the text's vector, else from the beginning, and repeat where the donor is shorter.
    """
    passes.record(partial(model.read, donors))
    contexts, at_end = passes.contexts, model.pooling == "last"
    layers = zip(model.attending(batch), model.attending(donors), strict=True)
    places = [aligned(own, others, at_end) for own, others in layers]  # (batch, tokens)
    return lambda row: contexts[row].take_along_dim(places[row][..., None, None], 1)
