"""Derivatives of the loss with respect to gates on heads, for a batch of examples.

`losses` runs a model on a batch of n examples and returns the loss of each, (n,). One backward pass serves
the batch: each example has its own gates, and the losses are summed. Derivatives are signed, and 0 where
there is no head.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch

from headspec.models.gates import HeadGates

Losses = Callable[[], torch.Tensor]
#: places between closed and open gates at which the derivative is taken
STEPS = 8


def gate_derivatives(
    gates: HeadGates, losses: Losses, n: int, closed: np.ndarray | None = None
) -> torch.Tensor:
    """Return each example's derivative with respect to every head's gate, at 1, (n, layers, heads).

    Gates of heads in `closed`, bool (layers, heads), are at 0.
    """
    values = ones(gates, n)
    if closed is not None:
        values[:, torch.from_numpy(closed).to(values.device)] = 0
    return _derivatives(gates, losses, values)


def token_derivatives(gates: HeadGates, losses: Losses, n: int, tokens: int) -> torch.Tensor:
    """Return the derivative where every token has its own gate, (n, tokens, layers, heads).

    `tokens` is the largest number of tokens in a layer.
    """
    return _derivatives(gates, losses, ones(gates, n, tokens))


def integrated_derivatives(gates: HeadGates, losses: Losses, n: int, steps: int = STEPS) -> torch.Tensor:
    """Return the mean of -dL/dgate while all gates go from 0 to 1 together, (n, layers, heads).

    Summed over heads, it is how much an example's loss rises when every head is closed, up to the error of
    the midpoint rule (Sundararajan, Taly and Yan 2017).
    """
    total = torch.zeros((), device=next(gates.model.parameters()).device)
    for step in range(steps):
        total = total - _derivatives(gates, losses, torch.full_like(ones(gates, n), (step + 0.5) / steps))
    return total / steps


def patch_derivatives(
    gates: HeadGates, losses: Losses, n: int, instead: Mapping[int, torch.Tensor]
) -> torch.Tensor:
    """Return the derivative at the usual context vectors z towards others z', (n, layers, heads).

    It is the sum over tokens of (z' - z) dL/dz, the first-order estimate of how much the loss rises when a
    head's context vectors are replaced by `instead`, row: (n, tokens, heads, size) (Syed, Rager and Conmy
    2023).
    """
    values = torch.zeros_like(ones(gates, n)).requires_grad_()

    def mix(row: int, context: torch.Tensor) -> torch.Tensor:
        moved = values[:, row, : context.shape[2]].repeat_interleave(len(context) // n, 0)
        other = instead[row].to(context.device, context.dtype)
        return context + (moved[:, None, :, None].to(context.device) * (other - context)).to(context.dtype)

    with gates.edited(mix):
        return torch.autograd.grad(losses().sum(), values)[0]


def ones(gates: HeadGates, *shape: int) -> torch.Tensor:
    """Return open gates, (*shape, layers, heads), on the model's device."""
    return torch.ones(*shape, *gates.exists.shape, device=next(gates.model.parameters()).device)


def _derivatives(gates: HeadGates, losses: Losses, values: torch.Tensor) -> torch.Tensor:
    with gates.at(values.requires_grad_()):
        return torch.autograd.grad(losses().sum(), values)[0]
