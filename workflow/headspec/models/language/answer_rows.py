"""The rows of a language model's head for some answers, as a classifier."""

from __future__ import annotations

import torch
from torch import nn


class AnswerRows(nn.Linear):
    """A linear layer that multiplies in float32 under autocast, too.

    In bfloat16, logits between 16 and 32 are multiples of an eighth, and those of two answers often equal.
    """

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        with torch.autocast(states.device.type, enabled=False):
            return super().forward(states.float())
