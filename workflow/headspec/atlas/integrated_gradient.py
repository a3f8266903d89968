"""Integrated gradients of the gates on heads: attribution that sums to the joint effect of all heads."""

import numpy as np
import torch

from headspec.heads.gradients import STEPS, integrated_derivatives
from headspec.heads.importance import by_batch
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask


def measure(model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device) -> np.ndarray:
    """Return the mean of -dL/dgate while all gates go from 0 to 1 together, (n, layers, heads).

    Derivatives at open gates alone (`gradient_x_activation`) miss heads whose effect is saturated.
    """

    def batch_values(batch: Batch) -> torch.Tensor:
        def losses() -> torch.Tensor:
            with device.cast():
                return model.losses(task, model.pool(batch), batch.labels)

        return integrated_derivatives(model.gates, losses, len(batch.rows), STEPS)

    return by_batch(batch_values, "integrated gradients", model, task, examples, rows, device)
