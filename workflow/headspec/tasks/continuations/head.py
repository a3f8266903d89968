"""How likely a language model finds the continuations of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from headspec.models.language.likelihoods import log_probabilities
from headspec.models.tokens.continuations import NONE
from headspec.tasks.heads import Head, Predicted, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.multitask import MultiTask


@dataclass
class Continuations:
    """The continuations of the texts of a batch, k each, on the device.

    Attributes
    ----------
    right : (batch,), which of them is right
    places : (batch, k, tokens), the place in the row of the token that predicts each token
    targets : (batch, k, tokens), the tokens; `NONE` where a continuation has no more
    """

    right: torch.Tensor
    places: torch.Tensor
    targets: torch.Tensor

    def __getitem__(self, rows: slice) -> Continuations:
        return Continuations(self.right[rows], self.places[rows], self.targets[rows])

    @classmethod
    def of(
        cls, right: np.ndarray, lengths: Sequence[int], continuations: Sequence[Sequence[Sequence[int]]]
    ) -> Continuations:
        """Those of texts of these `lengths`."""
        shape = (len(lengths), len(continuations[0]), max(len(c) for each in continuations for c in each))
        places, targets = np.zeros(shape, dtype=np.int64), np.full(shape, NONE, dtype=np.int64)
        for row, (length, each) in enumerate(zip(lengths, continuations, strict=True)):
            start = length
            for i, tokens in enumerate(each):
                n = len(tokens)
                targets[row, i, :n] = tokens
                places[row, i, :n] = [length - 1, *range(start, start + n - 1)]
                start += n - 1
        return cls(
            torch.from_numpy(right.astype(np.int64)), torch.from_numpy(places), torch.from_numpy(targets)
        )

    def to(self, device: str, non_blocking: bool = True) -> Continuations:
        return Continuations(
            *(each.to(device, non_blocking=non_blocking) for each in (self.right, self.places, self.targets))
        )

    def states(self, states: torch.Tensor) -> torch.Tensor:
        """Of (batch, tokens, hidden), the states that predict the targets: (batch, k, tokens, hidden)."""
        rows = torch.arange(len(states), device=states.device)
        return states[rows[:, None, None], self.places]


@dataclass
class Gold:
    """Of all examples which continuation is right, the length of the text, and the tokens of each."""

    right: np.ndarray
    lengths: list[int]
    continuations: list[list[list[int]]]

    def __getitem__(self, rows: np.ndarray) -> Continuations:
        lengths, each = [self.lengths[row] for row in rows], [self.continuations[row] for row in rows]
        return Continuations.of(self.right[rows], lengths, each)


class Likelihoods(Head):
    """Log-likelihoods of k continuations by the head of a language model, and a bias for each.

    The loss is cross-entropy, restricted to them.

    Attributes
    ----------
    bias : (k,), 0 unless calibrated
    """

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.bias = nn.Parameter(torch.zeros(len(classes["labels"])))

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        continuations = [[list(tokens) for tokens in each] for each in frame["continuations"]]
        return Gold(frame["label"].to_numpy(), frame["input_ids"].str.len().tolist(), continuations)

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """The states that predict tokens, (batch, k, tokens, hidden)."""
        return batch.labels.states(model.output(batch).last_hidden_state)

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        """Log-likelihoods, (batch, k) float32."""
        assert model.head is not None
        real = targets.targets != NONE
        found = log_probabilities(model.head, states[real], targets.targets[real])
        summed = torch.zeros(real.shape, device=found.device).masked_scatter(real, found).sum(-1)
        return summed + self.bias

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        logits = self.logits(model, states, targets)
        return F.cross_entropy(logits, targets.right, reduction="none")


class Pair(Likelihoods):
    """Two continuations, of which the first is right; predicted is by how much it is the likelier."""

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        logits = self.logits(model, states, targets)
        return Predicted(unless_broken(logits[:, 0] - logits[:, 1], logits))


HEAD = Pair
