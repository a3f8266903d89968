"""A linear layer on the vectors of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.tasks.task_heads import TaskHead, small

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


class Linear(TaskHead, nn.Linear):
    """Logits of the vectors of texts."""

    def __init__(self, inputs: int, outputs: int) -> None:
        nn.Linear.__init__(self, inputs, outputs)
        small(self)

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        return self(model.dropout(states))
