"""Checks for nan and infinity, and errors that suggest a remedy."""

import math
from collections.abc import Sequence

import numpy as np

from headspec.errors import NumericalError
from headspec.models.devices import Device


def require(values: np.ndarray, what: str, examples: np.ndarray, device: Device) -> None:
    """Raise NumericalError if `values`, (n, ...), of the numbered `examples` (n,) are not finite."""
    invalid = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if invalid.any():
        count = f"{invalid.sum()} of {len(invalid)} examples, such as {examples[invalid][0]}"
        raise unusable(f"{what}, of {count}", device)


def unusable(what: str, device: Device) -> NumericalError:
    """Return the error for a model whose output is not finite."""
    precision = "precision: fp32 (now bf16) or " if device.autocast else ""
    rate = "a smaller training.learning_rate, if training caused it"
    return NumericalError(f"{what}: nan or infinite; try {precision}{rate}")


def divergence(steps: Sequence[Sequence[float]]) -> tuple[int, str] | None:
    """Return index and problem of the first of `steps`, (loss, gradient norm), that is not finite."""
    for number, (loss, norm) in enumerate(steps):
        if not math.isfinite(loss):
            return number, f"the loss is {loss}"
        if not math.isfinite(norm):
            return number, f"the loss is {loss:.3g}, but the norm of its gradient is {norm}"
    return None


def diverged(
    where: str, what: str, key: str, rate: float, clip: float | None, device: Device, kept: str = ""
) -> NumericalError:
    """Return the error for training that diverged at step and task `where`, by the problem `what`.

    `key` names the learning `rate`, `clip` is training.clip; `kept`, on the state to continue from, ends the
    message.
    """
    remedies = [f"a smaller {key} (now {rate:g})"]
    if clip is None:
        remedies.append("training.clip: 1.0 (now null)")
    if device.autocast:
        remedies.append("precision: fp32 (now bf16)")
    return NumericalError(f"{where}: {what}; try {' or '.join(remedies)}{kept}")
