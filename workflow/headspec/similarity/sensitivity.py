"""Sensitivity of the losses of single-task runs to the encoder's parameters: Fisher and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, unusable
from headspec.models.internals.squared_gradients import Squares
from headspec.models.multitask import MultiTask
from headspec.progress import Progress, log
from headspec.seeds import derive
from headspec.similarity.measures import pairwise_cosines

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def sampled(examples: Mapping[str, Examples], most: int, seed: int) -> dict[str, np.ndarray]:
    """Draw at most `most` rows of each task, (n,), in random order."""
    rngs = {task: np.random.default_rng(derive(seed, "sensitivity samples", task)) for task in examples}
    return {task: rngs[task].permutation(len(each))[:most] for task, each in examples.items()}


@dataclass(frozen=True)
class SingleRuns:
    """Single-task models of one seed, and the training samples on which they are compared."""

    folders: Mapping[str, Path]  #: of the models, by task
    examples: Mapping[str, Examples]
    rows: Mapping[str, np.ndarray]  #: samples of each task, from `sampled`
    encoder: Callable[[], PreTrainedModel]  #: loads the pretrained encoder
    device: Device
    seed: int
    scratch: Path  #: folder for temporary files

    @cached_property
    def progress(self) -> Progress:
        return Progress(sum(map(len, self.rows.values())), "examples")

    @property
    def halves(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Two halves of the samples, each with rows (n,) of every task."""
        first, second = ({task: rows[start::2] for task, rows in self.rows.items()} for start in (0, 1))
        return first, second

    def under_one_encoder(self) -> MultiTask:
        """Return the pretrained encoder with the classifiers of all models."""
        classes: dict[str, Any] = {}
        states = []
        for task, folder in self.folders.items():
            alone = MultiTask.load(folder)
            classes[task] = alone.classes[task]
            states.append(alone.classifier(task).state_dict())
        model = MultiTask(self.encoder(), alone.pooling, classes)
        for head, state in zip(model.task_heads, states, strict=True):
            head.load_state_dict(state)
        return model.eval()


def parameters(model: MultiTask) -> list[nn.Parameter]:
    """Return the encoder's parameters except the word embeddings, of which a text uses only a few."""
    embeddings = model.encoder.get_input_embeddings().weight
    return [p for p in model.encoder.parameters() if p is not embeddings]


def fisher_cosines(runs: SingleRuns) -> NDArray[np.float64]:
    """Return cosines between tasks' Fisher information, each in the task's own model, (tasks, tasks)."""
    vectors = (
        fisher(MultiTask.load(folder), task, runs.examples[task], runs.rows[task], runs.device, runs.progress)
        for task, folder in runs.folders.items()
    )
    return pairwise_cosines(vectors, runs.scratch)


def gradient_cosines(runs: SingleRuns) -> NDArray[np.float64]:
    """Return cosines between tasks' gradients at the pretrained encoder, (tasks, tasks)."""
    model = runs.under_one_encoder()
    vectors = (
        gradient(model, task, runs.examples[task], runs.rows[task], runs.device, runs.progress)
        for task in runs.folders
    )
    return pairwise_cosines(vectors, runs.scratch)


def fisher(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device, progress: Progress
) -> np.ndarray:
    """Return the diagonal of the empirical Fisher information, (parameters,) float32: mean squared gradients.

    Gradients of the loss for the true label are squared in batches
    (`headspec.models.internals.squared_gradients`), or one by one in models whose modules do not allow this,
    such as DeBERTa. Raises NumericalError if a value is not finite.
    """
    model.to(device.name).eval()
    if not _by_batches(model, task, examples, rows[:2], device):
        log.info("processing one example at a time: modules of the model mix gradients across examples")
        squares = [torch.zeros_like(p) for p in parameters(model)]  # shaped like the parameters
        for row in rows:
            batch = examples.batch(np.array([row]), device.name)
            _add_squares(squares, _gradients(model, task, batch, device))
            progress.advance(1, task)
        return _flat(squares, task, device) / len(rows)
    total = Squares(model.encoder, parameters(model))

    def add(batch: Batch) -> None:
        total.add(partial(_loss, model, task, batch, device), len(batch.rows))

    for batch, _ in examples.in_batches(add, rows, device):
        progress.advance(len(batch.rows), task)
    return _flat(total.sums, task, device) / len(rows)


def _by_batches(model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device) -> bool:
    """Return whether a batch gives the squared gradients of its examples; `rows` (n,) test it in float32."""
    whole = Squares(model.encoder, parameters(model))
    if not whole.supported:
        return False
    single = [torch.zeros_like(p) for p in parameters(model)]
    exact = replace(device, autocast=None)
    try:
        whole.add(partial(_loss, model, task, examples.batch(rows, exact.name), exact), len(rows))
    except ValueError:
        return False
    for row in rows:
        batch = examples.batch(np.array([row]), exact.name)
        _add_squares(single, _gradients(model, task, batch, exact))
    # the gradient of a key bias is 0 up to rounding
    rounding = 1e-6 * max(square.norm() for square in single)
    pairs = zip(whole.sums, single, strict=True)
    return all((a - b).norm() <= 1e-3 * b.norm() + rounding for a, b in pairs)


def _add_squares(squares: list[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
    """Add the squares of gradients, each shaped like its parameter."""
    for square, gradient in zip(squares, gradients, strict=True):
        square.addcmul_(gradient, gradient)


def gradient(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device, progress: Progress
) -> np.ndarray:
    """Return the gradient of the mean loss over `rows`, (parameters,) float32.

    It is with respect to `parameters`. Raises NumericalError if a value is not finite.
    """
    sums = [torch.zeros_like(p, device=device.name) for p in parameters(model)]
    compute = partial(_gradients, model, task, device=device)
    for batch, gradients in examples.in_batches(compute, rows, device):
        for total, gradient in zip(sums, gradients, strict=True):
            total += gradient
        progress.advance(len(batch.rows), task)
    return _flat(sums, task, device) / len(rows)


def _gradients(model: MultiTask, task: str, batch: Batch, device: Device) -> tuple[torch.Tensor, ...]:
    """Return gradients of a batch's summed loss, shaped like parameters; 0 for those without effect."""
    loss = _loss(model, task, batch, device)
    return torch.autograd.grad(loss, parameters(model), allow_unused=True, materialize_grads=True)


def losses(model: MultiTask, task: str, batch: Batch, device: Device) -> torch.Tensor:
    """Return the loss of each example of a batch, (batch,), in evaluation mode."""
    model.to(device.name).eval()
    model.attend_for_gradients(device)
    with device.cast():
        return model.losses(task, model.pool(batch), batch.labels)


def _loss(model: MultiTask, task: str, batch: Batch, device: Device) -> torch.Tensor:
    """Return the sum of the losses of a batch, a scalar."""
    return losses(model, task, batch, device).sum()


def _flat(tensors: list[torch.Tensor], task: str, device: Device) -> np.ndarray:
    """Concatenate to (parameters,); NumericalError if an entry is not finite."""
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu().numpy()
    if not np.isfinite(flat).all():
        raise unusable(f"gradients of the loss of task '{task}'", device)
    return flat
