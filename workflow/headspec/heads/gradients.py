"""Derivatives of losses with respect to gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from headspec.models.gates import HeadGates
from headspec.models.modes import evaluating


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


def gate_derivatives(
    gates: HeadGates, losses: Callable[[], torch.Tensor], n: int, closed: np.ndarray | None = None
) -> torch.Tensor:
    """Return each example's derivative of the loss with respect to every head's gate, at 1.

    One backward pass serves a batch: each example has its own gates, and the losses are summed. The result is
    (batch, layers, heads), signed, and 0 where there is no head. `losses` runs the model on a batch of `n`
    and returns each example's loss, (batch,); gates of heads in `closed`, bool (layers, heads), are at 0.
    """
    values = open_gates(gates, n)
    if closed is not None:
        with torch.no_grad():
            values[:, torch.from_numpy(closed).to(values.device)] = 0
    return torch.autograd.grad(losses().sum(), values)[0]


def open_gates(gates: HeadGates, *shape: int) -> torch.Tensor:
    """Set gates of one, (*shape, layers, heads), on the model and record their derivatives."""
    device = next(gates.model.parameters()).device
    gates.values = values = torch.ones(*shape, *gates.exists.shape, device=device, requires_grad=True)
    return values
