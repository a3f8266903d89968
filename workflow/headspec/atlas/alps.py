"""ALPS's score of heads (Chen et al. 2025) as a measure of the atlas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headspec.models.attention.weight_shifts import weight_shifts
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def alps(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    pretrained: PreTrainedModel,
) -> np.ndarray:
    """Return how far training moved each head's weights, the same for every example, (n, layers, heads).

    Raises ModelError as `headspec.models.attention.weight_shifts.weight_shifts`.
    """
    shifts = weight_shifts(model.gates, pretrained)
    return np.broadcast_to(shifts, (len(rows), *shifts.shape))
