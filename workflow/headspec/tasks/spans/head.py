"""A linear classifier of BIO tags for every word."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.words import bio_classes as bio
from headspec.tasks.words.base import NONE
from headspec.tasks.words.head import Decoder, Named, Units, linear, of_sentences, within


class Spans(Decoder):
    """Units are (first, last, type): cross-entropy of the tag of each word, and its likeliest tag."""

    def __init__(self, hidden: int, labels: list[str]) -> None:
        super().__init__()
        self.scores: nn.Linear = linear(hidden, bio.classes(len(labels)))

    def losses(self, states: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        scores = self.scores(states).float()
        sentence, unit = (targets[..., -1] != NONE).nonzero(as_tuple=True)
        best = bio.of_words(sentence, targets[sentence, unit], (states.shape[0], states.shape[1]))
        losses = F.cross_entropy(scores.transpose(1, 2), best, reduction="none")
        return of_sentences(losses, within(lengths, states))

    def evidence(self, states: torch.Tensor, lengths: torch.Tensor, given: Sequence[Named]) -> torch.Tensor:
        best = self.scores(states).float().amax(-1)
        return (best * within(lengths, best)).sum(1)

    def decode(self, states: torch.Tensor, lengths: torch.Tensor, given: Sequence[Named]) -> list[Units]:
        best = self.scores(states).float().argmax(-1).cpu().tolist()
        return [list(bio.spans(row[:length])) for row, length in zip(best, lengths.tolist(), strict=True)]


build = Spans
