"""Head importance: how much an example's loss changes with a gate on the head."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from headspec.batching import Batch, Examples, in_order
from headspec.devices import Device
from headspec.finite import require
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import FLOAT, INT, TEXT, Schema

IMPORTANCE = Schema(
    {"task": TEXT, "fold": INT, "layer": INT, "head": INT, "importance": FLOAT, "n": INT, "fisher": FLOAT},
    keys=4,
)

FOLDS = 10


def gate_gradients(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Every example's derivative of its loss with respect to every head's gate, at 1.

    One backward pass per batch: the gates have shape (batch, layers, heads) and the loss is
    summed over the batch, so each example's gates receive its own derivative. The weights take
    no gradients, and dropout is off; both are as before on return.

    Returns
    -------
    gradients : (len(rows), layers, heads), signed, in the order of `rows`

    Raises
    ------
    NumericalError
        One of them is not finite.
    """
    gates = model.gates
    training, learning = model.training, [p.requires_grad for p in model.parameters()]
    model.to(device.name).eval().requires_grad_(False)
    model.attend_for_gradients(device)
    done: list[np.ndarray] = []
    found: list[torch.Tensor] = []  # on the device, which is waited for but once
    try:
        for part in (batches := examples.in_length_order(rows, device)):
            try:
                gradient = _gradients_of_a_batch(model, task, examples.batch(part, device.name), device)
            except RuntimeError as error:
                batches.halve(error)
                continue
            done.append(part)
            found.append(gradient)
            if progress:
                progress.advance(len(part), task)
    finally:
        gates.values = None
        model.train(training)
        for parameter, wanted in zip(model.parameters(), learning, strict=True):
            parameter.requires_grad_(wanted)
    gradients = in_order(rows, done, torch.cat(found).cpu().numpy())
    require(gradients, f"gradients of the gates, task '{task}'", examples.example[rows], device)
    return gradients


def _gradients_of_a_batch(model: MultiTask, task: str, batch: Batch, device: Device) -> torch.Tensor:
    shape = (len(batch.rows), model.gates.layers, model.gates.heads)
    model.gates.values = torch.ones(shape, device=device.name, requires_grad=True)
    with device.cast():
        loss = model.losses(task, model.pool(batch), batch.labels).sum()
    (gradient,) = torch.autograd.grad(loss, model.gates.values)
    return gradient


def importance(
    model: MultiTask, examples: dict[str, Examples], samples: int, rng: np.random.Generator, device: Device
) -> pd.DataFrame:
    """Importance of every head for every task, in ten folds of the training samples.

    I_h^t = mean over samples x of task t of | dL_t(x) / dxi_h | (Li et al. 2023, Eq. 4), the
    absolute value taken per sample.

    Parameters
    ----------
    samples : training samples per task, drawn by `rng`; all of them where a task has fewer

    Returns
    -------
    frame : the table `importance`; a head's importance is the mean over folds weighted by n. `fisher` is
        the mean of the squared derivative: the diagonal empirical Fisher information of the gate.
    """
    drawn = {task: rng.permutation(len(e))[:samples] for task, e in examples.items()}
    progress = Progress(sum(map(len, drawn.values())), "examples")
    frames = []
    for task, rows in drawn.items():
        gradients = gate_gradients(model, task, examples[task], rows, device, progress)
        for fold in range(FOLDS):
            part = gradients[fold::FOLDS].astype(np.float64)
            layer, head = np.indices(part.shape[1:])
            frames.append(
                pd.DataFrame(
                    {
                        "task": task,
                        "fold": fold,
                        "layer": layer.ravel(),
                        "head": head.ravel(),
                        "importance": np.abs(part).mean(axis=0).ravel(),
                        "n": len(part),
                        "fisher": np.square(part).mean(axis=0).ravel(),
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)
