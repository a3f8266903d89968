"""Baselines of the benchmark: training, importance and pruning as in released code."""

from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.workload import Workload
from headspec.config.sections.training import Training
from headspec.heads.masks import Mask
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.training.schedule import learning_rate

BATCH = 32  # examples


def padded(batch: Batch, tokens: int) -> Batch:
    """Return `batch` padded to `tokens` columns."""
    missing = (0, tokens - batch.input_ids.shape[1])
    types = None if batch.token_type_ids is None else F.pad(batch.token_type_ids, missing)
    ids, mask = F.pad(batch.input_ids, missing), F.pad(batch.attention_mask, missing)
    return replace(batch, input_ids=ids, attention_mask=mask, token_type_ids=types)


def unsorted(examples: Examples, size: int) -> list[np.ndarray]:
    """Return batches of `size` rows in the order of the table."""
    return np.split(np.arange(len(examples)), range(size, len(examples), size))


def train_padded(work: Workload, model: MultiTask, examples: Examples, settings: Training) -> list[float]:
    """Train in float32 with every example padded to `work.width`; return the loss of every step."""
    model.to(work.device.name).train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=settings.weight_decay)
    steps = unsorted(examples, settings.batch_size) * settings.epochs
    losses = []
    for step, rows in enumerate(steps):
        rate = learning_rate(step, len(steps), settings.learning_rate, settings.warmup, settings.decay)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = padded(examples.batch(rows, work.device.name), work.width)
        loss = model.losses(work.task, model.pool(batch), batch.labels).mean()
        loss.backward()
        if settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def gradients_one_by_one(work: Workload, model: MultiTask) -> np.ndarray:
    """Return gate derivatives, (n, layers, heads), by a full float32 pass per example.

    As in the released code, the backward pass also computes the gradients of the weights.
    """
    model.to(work.device.name).eval()
    gradients = []
    for rows in unsorted(work.score, 1):
        gates = torch.ones(model.gates.layers, model.gates.heads, device=work.device.name, requires_grad=True)
        model.gates.values = gates
        batch = work.score.batch(rows, work.device.name)
        model.losses(work.task, model.pool(batch), batch.labels).sum().backward()
        assert gates.grad is not None
        gradients.append(gates.grad.cpu().numpy())
    model.gates.values = None
    model.zero_grad()
    return np.stack(gradients)


@torch.no_grad()
def predictions_one_by_one(
    work: Workload, model: MultiTask, planned: list[Mask], device: Device
) -> np.ndarray:
    """Return predictions, (masks, n), by a pass over unsorted batches for each mask."""
    model.to(device.name).eval()
    predicted = np.empty((len(planned), len(work.score)), dtype=np.float32)
    for i, mask in enumerate(planned):
        model.gates.values = torch.from_numpy(~mask.closed).float().to(device.name)
        for rows in unsorted(work.score, BATCH):
            with device.cast():
                values = model.predictions(work.task, model.pool(work.score.batch(rows, device.name)))
            predicted[i, rows] = values.cpu().numpy()
    model.gates.values = None
    return predicted
