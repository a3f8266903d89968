"""Numbers that are none: nan and infinity stop a job where they arise, with what to try."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headspec.devices import Device
from headspec.errors import NumericalError


def require(values: np.ndarray, what: str, examples: np.ndarray, device: Device) -> None:
    """Raise NumericalError where what a model computes is not finite.

    Parameters
    ----------
    values : (n, ...), of each example
    what : what they are, and of which task
    examples : (n,), how examples are called
    """
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        raise unusable(f"{what}, of {bad.sum()} of {len(bad)} examples, such as {examples[bad][0]}", device)


def unusable(what: str, device: Device) -> NumericalError:
    """The error of a model that computes nothing of use."""
    other = "precision: fp32 (now bf16) or " if device.autocast else ""
    way = "a smaller training.learning_rate, where training led there"
    return NumericalError(f"{what}: nan or infinite; try {other}{way}")


def divergence(steps: Sequence[Sequence[float]]) -> tuple[int, str] | None:
    """The first of `steps`, each a loss and the norm of its gradient, that is not finite, and what is not."""
    for number, (loss, norm) in enumerate(steps):
        if not math.isfinite(loss):
            return number, f"the loss is {loss}"
        if not math.isfinite(norm):
            return number, f"the loss is {loss:.3g}, but the norm of its gradient {norm}"
    return None


def diverged(
    where: str, what: str, key: str, rate: float, clip: float | None, device: Device, kept: str = ""
) -> NumericalError:
    """The error of training that cannot go on.

    Parameters
    ----------
    where, what : the step and its task; what is not finite
    key, rate : the key of the learning rate in the config, and its value
    kept : what there is to go on from
    """
    ways = [f"a smaller {key} (now {rate:g})"]
    if clip is None:
        ways.append("training.clip: 1.0 (now null)")
    if device.autocast:
        ways.append("precision: fp32 (now bf16)")
    return NumericalError(f"{where}: {what}; try {' or '.join(ways)}{kept}")
