"""Continuations of a text, and how likely a language model finds them.

The continuations of an example stand in one row, after the text that they continue, which is thus read once.
Each attends to the text and to itself, at the positions that it has alone. So an example stays one row of a
batch, and its gates, states and attention are those of one row, whatever its number of continuations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from headspec.models.language.head import LanguageHead

#: target where a continuation has no more tokens, and branch of padding
NONE = -1
#: most logits at once, so that memory does not grow with the vocabulary
LOGITS = 2**26


def in_a_row(text: Sequence[int], continuations: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The tokens that a model reads to score continuations: of each all but the last, which predicts nothing.

    Returns
    -------
    ids : tokens of the text, then of every continuation
    branches : 0 for tokens of the text, i for those of the i-th continuation, from 1
    """
    ids, branches = list(text), [0] * len(text)
    for branch, tokens in enumerate(continuations, 1):
        ids += tokens[:-1]
        branches += [branch] * (len(tokens) - 1)
    return ids, branches


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

    def to(self, device: str) -> Continuations:
        return Continuations(
            *(each.to(device, non_blocking=True) for each in (self.right, self.places, self.targets))
        )

    def states(self, states: torch.Tensor) -> torch.Tensor:
        """Of (batch, tokens, hidden), the states that predict the targets: (batch, k, tokens, hidden)."""
        rows = torch.arange(len(states), device=states.device)
        return states[rows[:, None, None], self.places]


def attention(branches: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The arguments of an encoder by which continuations in a row do not see each other.

    Parameters
    ----------
    branches : (batch, tokens), as from `in_a_row`; `NONE` for padding

    Returns
    -------
    attention_mask : (batch, 1, tokens, tokens), added to the logits of attention
    position_ids : (batch, tokens)
    """
    n = branches.shape[1]
    before = torch.ones(n, n, dtype=torch.bool, device=branches.device).tril()
    of_text = branches[:, None] == 0
    attended = before & (of_text | (branches[:, None] == branches[..., None]))  # (batch, tokens, tokens)
    mask = torch.zeros(attended.shape, dtype=dtype, device=branches.device)
    mask = mask.masked_fill(~attended, torch.finfo(dtype).min)
    return {"attention_mask": mask[:, None], "position_ids": attended.sum(-1) - 1}


class Likelihoods(nn.Module):
    """Log-likelihoods of k continuations by the head of a language model, and a bias for each.

    Attributes
    ----------
    bias : (k,), 0 unless calibrated
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(k))

    def forward(self, states: torch.Tensor, targets: torch.Tensor, head: LanguageHead) -> torch.Tensor:
        """(batch, k) of states (batch, k, tokens, hidden) and `Continuations.targets`, in float32."""
        real = targets != NONE
        found = log_probabilities(head, states[real], targets[real])
        summed = torch.zeros(real.shape, device=found.device).masked_scatter(real, found).sum(-1)
        return summed + self.bias


def log_probabilities(head: LanguageHead, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The log-probability of the token that follows each state, (n,) float32.

    Parameters
    ----------
    head : of a language model, (n, hidden) to (n, vocabulary) float32
    states : (n, hidden)
    tokens : (n,)
    """

    def of_part(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return -F.cross_entropy(head(states), tokens, reduction="none")

    at_once = max(1, LOGITS // head.tokens.out_features)
    if len(states) <= at_once:
        return of_part(states, tokens)
    parts = zip(states.split(at_once), tokens.split(at_once), strict=True)
    return torch.cat([checkpoint(of_part, *part, use_reentrant=False) for part in parts])
