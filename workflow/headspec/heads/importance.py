"""Head importance: sensitivity of the loss to a gate on each head."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from torch import nn

from headspec.heads.gradients import gate_derivatives
from headspec.heads.ranking import fold_means
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.finite import require
from headspec.models.modes import evaluating
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import FLOAT, INT, TEXT, Schema

IMPORTANCE = Schema(
    {"task": TEXT, "fold": INT, "layer": INT, "head": INT, "importance": FLOAT, "n": INT, "fisher": FLOAT},
    keys=4,
)
"""Table `importance`: a row for each task, fold and head.
runs/{model}/{mixture}/{method}/seed{seed}/importance.parquet,
runs/{model}/{mixture}/{method}/seed{seed}/branch/{delta}/importance.parquet

fold: tenth of the samples; importance is the mean over folds, weighted by n
fisher: mean squared derivative: diagonal empirical Fisher information
"""

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
    """Compute values of examples that need a backward pass, in batches of similar length.

    Weights get no gradients and dropout is off; on return both are restored and gates removed. Raises
    NumericalError, with the name `what`, if a value is not finite.

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
    require(values[..., exists], f"{what}, task '{task}'", examples.example[rows], device)
    return np.where(exists, values, np.nan).astype(values.dtype, copy=False)


def importance(
    model: MultiTask, examples: dict[str, Examples], samples: int, rng: np.random.Generator, device: Device
) -> pd.DataFrame:
    """Return the table `importance`: every head's importance for every task, in ten folds of samples.

    I_h^t = mean over samples x of task t of | dL_t(x) / dxi_h | (Li et al. 2023, Eq. 4): the mean over folds,
    weighted by n. `fisher` is the mean squared derivative, the diagonal of the empirical Fisher information
    of the gates. `samples` training samples are drawn per task with `rng`; a task with fewer uses all.
    """
    drawn = {task: rng.permutation(len(e))[:samples] for task, e in examples.items()}
    progress = Progress(sum(map(len, drawn.values())), "examples")
    frames = []
    for task, rows in drawn.items():
        gradients = gate_gradients(model, task, examples[task], rows, device, progress)
        absolute, square = np.abs(gradients), np.square(gradients, dtype=float)
        frames.append(fold_means(FOLDS, importance=absolute, fisher=square).assign(task=task))
    return pd.concat(frames, ignore_index=True)
