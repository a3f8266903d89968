"""Scores of pairs of words (Dozat and Manning 2017, arxiv.org/abs/1611.01734)."""

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.words.head import normalised


class Projection(nn.Module):
    """Project states for one side of a pair, (..., inputs) to (..., size + 1); the last number is 1."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, size)
        nn.init.orthogonal_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return F.pad(F.gelu(self.layer(normalised(states))), (0, 1), value=1.0)


def weights(*shape: int) -> nn.Parameter:
    """Return weights between both projections, small but not 0, so that gradients pass from the start."""
    return nn.Parameter(torch.empty(shape).normal_(std=0.02))
