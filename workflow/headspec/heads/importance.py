"""Head importance: sensitivity of the loss to a gate on each head.

Functions for derivatives take `losses`, which runs a model on a batch of n examples and returns the loss of
each, (n,). One backward pass serves the batch: each example has its own gates, and the losses are summed.
Derivatives are signed, and 0 where there is no head.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from torch import nn

from headspec.heads.ranking import blocks, fold_means
from headspec.models.attention.interface import evaluating
from headspec.models.attention.placement import device_of
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, require_finite
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.progress import Progress, log
from headspec.tables import FLOAT, INT, TEXT, Schema

#: share of repeated samples from which a warning is logged
REPEATED = 0.1

Losses = Callable[[], torch.Tensor]
#: steps between closed and open gates at which the derivative is taken
STEPS = 8


def gate_derivatives(
    gates: HeadGates, losses: Losses, n: int, closed: np.ndarray | None = None
) -> torch.Tensor:
    """Return each example's derivative with respect to every head's gate, (n, layers, heads).

    It is taken with all gates at 1, but those of heads in `closed`, bool (layers, heads), at 0.
    """
    values = ones(gates, n)
    if closed is not None:
        values[:, torch.from_numpy(closed).to(values.device)] = 0
    return _derivatives(gates, losses, values)


def token_derivatives(gates: HeadGates, losses: Losses, n: int, tokens: int) -> torch.Tensor:
    """Return the derivatives with respect to a gate for every token, (n, tokens, layers, heads).

    `tokens` is the largest number of tokens in a layer.
    """
    return _derivatives(gates, losses, ones(gates, n, tokens))


def integrated_derivatives(gates: HeadGates, losses: Losses, n: int, steps: int = STEPS) -> torch.Tensor:
    """Return the mean of -dL/dgate while all gates go from 0 to 1 together, (n, layers, heads).

    Summed over heads, it is how much an example's loss rises when every head is closed, up to the error of
    the midpoint rule (Sundararajan, Taly and Yan 2017).
    """
    total = torch.zeros((), device=device_of(gates.model))
    for step in range(steps):
        total = total - _derivatives(gates, losses, torch.full_like(ones(gates, n), (step + 0.5) / steps))
    return total / steps


def patch_derivatives(
    gates: HeadGates, losses: Losses, n: int, instead: Mapping[int, torch.Tensor]
) -> torch.Tensor:
    """Return the derivative at the context vectors z in the direction of vectors z', (n, layers, heads).

    It is the sum over tokens of (z' - z) dL/dz, the first-order estimate of how much the loss rises when a
    head's context vectors are replaced by `instead`, row: (n, tokens, heads, size) (Syed, Rager and Conmy
    2023).
    """
    values = torch.zeros_like(ones(gates, n)).requires_grad_()

    def mix(row: int, context: torch.Tensor) -> torch.Tensor:
        # (sequences, heads)
        moved = values[:, row, : context.shape[2]].repeat_interleave(len(context) // n, 0)
        other = instead[row].to(context.device, context.dtype)
        return context + (moved[:, None, :, None].to(context.device) * (other - context)).to(context.dtype)

    with gates.edited(mix):
        return torch.autograd.grad(losses().sum(), values)[0]


def ones(gates: HeadGates, *shape: int) -> torch.Tensor:
    """Return open gates, (*shape, layers, heads), on the model's device."""
    return torch.ones(*shape, *gates.exists.shape, device=device_of(gates.model))


def _derivatives(gates: HeadGates, losses: Losses, values: torch.Tensor) -> torch.Tensor:
    """Return the derivatives of the summed losses with respect to gates at `values`, in their shape."""
    with gates.at(values.requires_grad_()):
        return torch.autograd.grad(losses().sum(), values)[0]


IMPORTANCE = Schema(
    {"task": TEXT, "fold": INT, "layer": INT, "head": INT, "importance": FLOAT, "n": INT, "fisher": FLOAT},
    keys=4,
    paths=("{run}/importance.parquet", "{run}/branch/{delta}/importance.parquet"),
    about={
        "fold": "tenth of the distinct samples, with those that repeat them; importance is the mean over "
        "folds, weighted by n",
        "fisher": "mean squared derivative: diagonal empirical Fisher information",
    },
)

FOLDS = 10


@contextmanager
def scoring(model: nn.Module) -> Iterator[None]:
    """Turn off dropout and the gradients of weights inside the block."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with evaluating(model):
        model.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)


def gate_gradients(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
    closed: np.ndarray | None = None,
) -> np.ndarray:
    """Return each example's derivative of the loss with respect to every head's gate (`gate_derivatives`).

    It is signed, (len(rows), layers, heads), in the order of `rows`. Gates of the heads in `closed`, bool
    (layers, heads), are at 0. Raises NumericalError if a gradient is not finite.
    """

    def batch_values(batch: Batch) -> torch.Tensor:
        def losses() -> torch.Tensor:
            with device.cast():
                return model.losses(task, model.pool(batch), batch.labels)

        return gate_derivatives(model.gates, losses, len(batch.rows), closed)

    return by_batch(batch_values, "gradients of the gates", model, task, examples, rows, device, progress)


def by_batch(
    batch_values: Callable[[Batch], torch.Tensor],
    what: str,
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return values of examples that need a backward pass, computed in batches of similar length.

    Weights get no gradients and dropout is off; on return both are restored and gates removed. Raises
    NumericalError, naming `what`, if a value is not finite.

    Parameters
    ----------
    batch_values : computes the values of a batch, (batch, ..., layers, heads)

    Returns
    -------
    values : (len(rows), ...), in the order of `rows`; nan where there is no head
    """
    model.to(device.name)
    model.attend_for_gradients(device)
    with scoring(model):
        try:
            values = examples.values(batch_values, rows, device, progress, task)
        finally:
            model.gates.values = None
    exists = model.gates.exists
    require_finite(values[..., exists], f"{what}, task '{task}'", examples.example[rows], device)
    return np.where(exists, values, np.nan).astype(values.dtype, copy=False)


def importance(
    model: MultiTask, examples: dict[str, Examples], samples: int, rng: np.random.Generator, device: Device
) -> pd.DataFrame:
    """Return the table `importance`: every head's importance for every task, in up to ten folds of samples.

    I_h^t = mean over samples x of task t of | dL_t(x) / dxi_h | (Li et al. 2023, Eq. 4): the mean over folds,
    weighted by n. `fisher` is the mean squared derivative, the diagonal of the empirical Fisher information
    of the gates. `samples` training samples are drawn per task with `rng`; a task with fewer uses all.
    Samples with the same tokens share a fold, so that halves of the folds are independent samples.
    """
    drawn = {task: rng.permutation(len(e))[:samples] for task, e in examples.items()}
    progress = Progress(sum(map(len, drawn.values())), "examples")
    frames = []
    for task, rows in drawn.items():
        gradients = gate_gradients(model, task, examples[task], rows, device, progress)
        absolute, square = np.abs(gradients), np.square(gradients, dtype=float)
        tokens = [tuple(examples[task].ids[row]) for row in rows]
        if (repeated := len(tokens) - len({*tokens})) >= REPEATED * len(tokens):
            log.warning("task '%s': %d of %d samples repeat another", task, repeated, len(tokens))
        means = fold_means(blocks(tokens, FOLDS), importance=absolute, fisher=square)
        frames.append(means.assign(task=task))
    return pd.concat(frames, ignore_index=True)
