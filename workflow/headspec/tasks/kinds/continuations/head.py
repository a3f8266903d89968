"""Log-likelihoods of continuations, and the likelier one of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from headspec.models.batching import NO_CONTINUATION
from headspec.models.language import log_probabilities
from headspec.tasks.task_heads import Gold, Predicted, Targets, TaskHead, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.multitask import MultiTask


@dataclass
class Continuations(Targets):
    """The continuations of the texts of a batch, k each; `right` (batch,) is the index of the right one.

    `targets` (batch, k, tokens) are their tokens, padded with `NO_CONTINUATION`; the tokens at `places`
    predict them.
    """

    right: torch.Tensor
    places: torch.Tensor
    targets: torch.Tensor

    @classmethod
    def padded(
        cls, right: Sequence[float], lengths: Sequence[int], continuations: Sequence[Sequence[Sequence[int]]]
    ) -> Continuations:
        """Return the targets of texts with `lengths` tokens, all with equally many continuations."""
        shape = (len(lengths), len(continuations[0]), max(len(c) for each in continuations for c in each))
        places, targets = np.zeros(shape, dtype=np.int64), np.full(shape, NO_CONTINUATION, dtype=np.int64)
        for row, (length, each) in enumerate(zip(lengths, continuations, strict=True)):
            start = length
            for i, tokens in enumerate(each):
                n = len(tokens)
                targets[row, i, :n] = tokens
                places[row, i, :n] = [length - 1, *range(start, start + n - 1)]
                start += n - 1
        return cls(*map(torch.from_numpy, (np.array(right, dtype=np.int64), places, targets)))

    def states(self, states: torch.Tensor) -> torch.Tensor:
        """Select the states that predict targets, (batch, tokens, hidden) to (batch, k, tokens, hidden)."""
        rows = torch.arange(len(states), device=states.device)
        return states[rows[:, None, None], self.places]


class Likelihoods(TaskHead):
    """Log-likelihoods of k continuations, plus `bias` (k,), 0 unless calibrated; loss: cross-entropy."""

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.bias = nn.Parameter(torch.zeros(len(classes["labels"])))

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        continuations = [[list(tokens) for tokens in each] for each in frame["continuations"]]
        lengths = frame["input_ids"].str.len().tolist()
        right = frame["label"].to_numpy()
        return Gold(Continuations.padded, right=right, lengths=lengths, continuations=continuations)

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """Return the states that predict tokens, (batch, k, tokens, hidden)."""
        states: torch.Tensor = batch.labels.states(model.states(batch))
        return states

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        """Return log-likelihoods, (batch, k) float32."""
        assert model.head is not None
        real = targets.targets != NO_CONTINUATION
        likelihoods = log_probabilities(model.head, states[real], targets.targets[real])
        summed = torch.zeros(real.shape, device=likelihoods.device).masked_scatter(real, likelihoods).sum(-1)
        return summed + self.bias

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        logits = self.logits(model, states, targets)  # (batch, k)
        return F.cross_entropy(logits, targets.right, reduction="none")


class Pair(Likelihoods):
    """Two continuations, the first one right; the prediction is the difference of log-likelihoods."""

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        logits = self.logits(model, states, targets)  # (batch, 2)
        return Predicted(unless_broken(logits[:, 0] - logits[:, 1], logits))


HEAD = Pair


class MinimalPair(Pair):
    """Loss: the log-likelihood of the wrong text minus the right one's."""

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        logits = self.logits(model, states, targets)  # (batch, 2)
        return logits[:, 1] - logits[:, 0]


MINIMAL_PAIRS_HEAD = MinimalPair
