"""A score for each text, by the squared error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from headspec.tasks.kinds.texts.head import Linear
from headspec.tasks.task_heads import Predicted, unless_broken

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


class Score(Linear):
    """The score is the only logit."""

    regresses = True

    def __init__(self, model: MultiTask, classes: None) -> None:
        super().__init__(model.hidden, 1)

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        scores = self.logits(model, states).float()
        return F.mse_loss(scores[:, 0], targets.float(), reduction="none")

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        scores = self.logits(model, states).float()
        return Predicted(unless_broken(scores[:, 0], scores))


HEAD = Score
