"""The plain ways to train, score and prune, as released code does them: what `bench` measures against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional as F

from headspec.batching import Batch, Examples
from headspec.devices import Device
from headspec.masks import Mask
from headspec.multitask import MultiTask
from headspec.sections import Training
from headspec.training import learning_rate

BATCH = 32  # examples


def padded(batch: Batch, tokens: int) -> Batch:
    """`batch` with padding up to `tokens` columns."""

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return F.pad(tensor, (0, tokens - tensor.shape[1]))

    kinds = None if batch.token_type_ids is None else wide(batch.token_type_ids)
    ids, mask = wide(batch.input_ids), wide(batch.attention_mask)
    return replace(batch, input_ids=ids, attention_mask=mask, token_type_ids=kinds)


def unsorted(examples: Examples, size: int) -> list[np.ndarray]:
    """Batches of `size` rows in the order of the table."""
    return np.split(np.arange(len(examples)), range(size, len(examples), size))


def train_padded(
    model: MultiTask, task: str, examples: Examples, settings: Training, device: Device, tokens: int
) -> list[float]:
    """Training in float32 with every example padded to `tokens`; the loss of every step."""
    model.to(device.name).train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=settings.weight_decay)
    steps = unsorted(examples, settings.batch_size) * settings.epochs
    losses = []
    for number, rows in enumerate(steps):
        rate = learning_rate(number, len(steps), settings.learning_rate, settings.warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = padded(examples.batch(rows, device.name), tokens)
        loss = model.losses(task, model.pool(batch), batch.labels).mean()
        loss.backward()
        if settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def gradients_one_by_one(model: MultiTask, task: str, examples: Examples, device: Device) -> np.ndarray:
    """Derivatives with respect to gates, (n, layers, heads): a whole float32 pass per example.

    As in the released code, the backward pass also computes the gradients of the weights.
    """
    model.to(device.name).eval()
    found = []
    for rows in unsorted(examples, 1):
        gates = torch.ones(model.gates.layers, model.gates.heads, device=device.name, requires_grad=True)
        model.gates.values = gates
        batch = examples.batch(rows, device.name)
        model.losses(task, model.pool(batch), batch.labels).sum().backward()
        assert gates.grad is not None
        found.append(gates.grad.cpu().numpy())
    model.gates.values = None
    model.zero_grad()
    return np.stack(found)


@torch.no_grad()
def predictions_one_by_one(
    model: MultiTask, task: str, examples: Examples, planned: list[Mask], device: Device
) -> np.ndarray:
    """Predictions, (masks, n): a pass over all batches per mask, examples in the order of the table."""
    model.to(device.name).eval()
    found = np.empty((len(planned), len(examples)), dtype=np.float32)
    for i, mask in enumerate(planned):
        model.gates.values = torch.from_numpy(~mask.closed).float().to(device.name)
        for rows in unsorted(examples, BATCH):
            with device.cast():
                own = model.predictions(task, model.pool(examples.batch(rows, device.name)))
            found[i, rows] = own.cpu().numpy()
    model.gates.values = None
    return found
