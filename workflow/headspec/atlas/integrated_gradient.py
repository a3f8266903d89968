"""Integrated gradients of the gates on heads: attribution that sums to the joint effect of all heads."""

import numpy as np
import torch

from headspec.heads.importance import by_batch, open_gates
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask

#: places between closed and open gates at which the derivative is taken
STEPS = 8


def measure(model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device) -> np.ndarray:
    """Return the mean of -dL/dgate while all gates go from 0 to 1 together, (n, layers, heads).

    Summed over heads, it is how much an example's loss rises when every head is closed, up to the
    error of the midpoint rule (Sundararajan, Taly and Yan 2017). Derivatives at open gates alone
    (`gradient_x_activation`) miss heads whose effect is saturated.
    """

    def batch_values(batch: Batch) -> torch.Tensor:
        total = torch.zeros(())
        for step in range(STEPS):
            gates = open_gates(model.gates, len(batch.rows))
            with torch.no_grad():
                gates.fill_((step + 0.5) / STEPS)
            with device.cast():
                loss = model.losses(task, model.pool(batch), batch.labels).sum()
            total = total.to(gates.device) - torch.autograd.grad(loss, gates)[0]
        return total / STEPS

    return by_batch(batch_values, "integrated gradients", model, task, examples, rows, device)
