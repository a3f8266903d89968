"""Linear layers on text vectors: classes, scores, and sets of labels.

Losses are the cross-entropy of classes, from logits or from log-likelihoods of longer answers to prompts; the
squared error of scores; and the mean binary cross-entropy of a set's labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from headspec import per_example
from headspec.tasks.kinds.continuations.head import Likelihoods
from headspec.tasks.task_heads import Predicted, TaskHead, small, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.language import LanguageHead
    from headspec.models.multitask import MultiTask


class Linear(TaskHead, nn.Linear):
    """Logits from text vectors."""

    def __init__(self, inputs: int, outputs: int) -> None:
        nn.Linear.__init__(self, inputs, outputs)
        small(self)

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        logits: torch.Tensor = self(model.dropout(states))
        return logits


class ClassHead(TaskHead):
    """Losses and predictions from logits of classes, (batch, classes)."""

    @classmethod
    def for_classes(cls, classes: Any) -> type[TaskHead]:
        return Likeliest if isinstance(classes, dict) else cls

    @classmethod
    def build(cls, model: MultiTask, classes: Any) -> TaskHead:
        if model.head is not None:  # with the first tokens, until others are given
            return Answers(model.head, range(len(classes)))
        return Classifier(model.hidden, len(classes))

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return F.cross_entropy(self.logits(model, states).float(), targets.long(), reduction="none")

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        logits = self.logits(model, states).float()
        likeliest = logits.argmax(1).float()
        return Predicted(unless_broken(likeliest, logits), logits.softmax(1))


class Classifier(Linear, ClassHead):
    """A linear classifier."""


class Answers(ClassHead):
    """Head of a language model, restricted to the tokens of the classes' answers."""

    def __init__(self, language: LanguageHead, tokens: Sequence[int]) -> None:
        nn.Module.__init__(self)
        self.restrict(language, tokens)

    def restrict(self, language: LanguageHead, tokens: Sequence[int]) -> None:
        self.language = language.restricted(tokens)

    @property
    def bias(self) -> nn.Parameter | None:
        """Bias of the logits, (classes,); 0 unless calibrated."""
        return self.language.bias

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        logits: torch.Tensor = self.language(model.dropout(states))
        return logits


class Likeliest(Likelihoods):
    """The class with the likeliest answer, from log-likelihoods (batch, classes)."""

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        logits = self.logits(model, states, targets)
        return Predicted(unless_broken(logits.argmax(1).float(), logits))


CLASSIFICATION_HEAD = ClassHead


class Score(Linear):
    """The only logit, (batch, 1), as the score."""

    regresses = True

    def __init__(self, model: MultiTask, classes: None) -> None:
        super().__init__(model.hidden, 1)

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        scores = self.logits(model, states).float()
        return F.mse_loss(scores[:, 0], targets.float(), reduction="none")

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        scores = self.logits(model, states).float()
        return Predicted(unless_broken(scores[:, 0], scores))


REGRESSION_HEAD = Score


class Labels(Linear):
    """A logit per label, (batch, labels); a label is predicted if its logit is above 0."""

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model.hidden, len(classes["labels"]))

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> torch.Tensor:
        """Return rows of 0 and 1, (n, labels)."""
        return torch.from_numpy(per_example.array(frame, "label"))

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the mean loss over labels for each example, (batch,)."""
        logits = self.logits(model, states).float()
        return F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none").mean(1)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the sum, over labels, of the logit for the decision made, (batch,): absolute values."""
        return self.logits(model, states).abs().sum(1)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return probabilities in float64, (batch, labels), which tells values near 1 apart for rankings."""
        logits = self.logits(model, states).float()
        likely = logits.double().sigmoid()
        return Predicted(unless_broken(likely, logits), likely.float())


LABELS_HEAD = Labels
