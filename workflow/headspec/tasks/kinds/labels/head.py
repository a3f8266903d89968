"""Any number of labels for each text, by the binary cross-entropy of each label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from headspec import per_example
from headspec.tasks.kinds.texts.head import Linear
from headspec.tasks.task_heads import Predicted, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.multitask import MultiTask


class Labels(Linear):
    """A logit per label; the label is predicted above 0."""

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model.hidden, len(classes["labels"]))

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> torch.Tensor:
        """Return rows of 0 and 1, (n, labels)."""
        return torch.from_numpy(per_example.array(frame, "label"))

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the mean over labels for each example."""
        logits = self.logits(model, states).float()
        return F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none").mean(1)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the sum of the logits for the decision on each label."""
        return self.logits(model, states).abs().sum(1)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return probabilities in float64, which keeps values near 1 apart for rankings."""
        logits = self.logits(model, states).float()
        likely = logits.double().sigmoid()
        return Predicted(unless_broken(likely, logits), likely.float())


HEAD = Labels
