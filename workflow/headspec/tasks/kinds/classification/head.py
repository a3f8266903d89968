"""A class for each text, by cross-entropy of logits, or of log-likelihoods of longer answers to prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.continuations.head import Likelihoods
from headspec.tasks.kinds.texts.head import Linear
from headspec.tasks.task_heads import Predicted, TaskHead, unless_broken

if TYPE_CHECKING:
    from headspec.models.language.head import LanguageHead
    from headspec.models.multitask import MultiTask


class ClassHead(TaskHead):
    """Losses and predictions from logits of classes."""

    @classmethod
    def for_classes(cls, classes: Any) -> type[TaskHead]:
        return Likeliest if isinstance(classes, dict) else cls

    @classmethod
    def build(cls, model: MultiTask, classes: Any) -> TaskHead:
        if model.head is not None:  # the first tokens, until others are given
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
        return self.language(model.dropout(states))


class Likeliest(Likelihoods):
    """The class with the likeliest answer."""

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        logits = self.logits(model, states, targets)
        return Predicted(unless_broken(logits.argmax(1).float(), logits))


HEAD = ClassHead
