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
    """Turn off dropout and the gradients of weights in the block."""
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
    """Derivative of each example's loss with respect to the gate of every head, at 1.

    One backward pass for a batch: the gates have shape (batch, layers, heads) and the loss is summed over
    the batch, so the gates of an example receive the derivative of that example's loss.

    Parameters
    ----------
    losses : runs the model on a batch, and returns the loss of each example, (batch,)
    n : examples of the batch
    closed : bool (layers, heads), optional
        Heads already pruned, whose gates are at 0.

    Returns
    -------
    derivatives : (batch, layers, heads), signed; 0 where there is no head
    """
    values = open_gates(gates, n)
    if closed is not None:
        with torch.no_grad():
            values[:, torch.from_numpy(closed).to(values.device)] = 0
    return torch.autograd.grad(losses().sum(), values)[0]


def open_gates(gates: HeadGates, *shape: int) -> torch.Tensor:
    """Set gates of one, (*shape, layers, heads), that record derivatives, on the model."""
    device = next(gates.model.parameters()).device
    gates.values = values = torch.ones(*shape, *gates.exists.shape, device=device, requires_grad=True)
    return values
