"""A linear classifier of BIO tags for every word."""

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.words import bio_classes as bio
from headspec.tasks.kinds.words.base import NONE
from headspec.tasks.kinds.words.head import Decoder, Given, Lengths, Units, masked_means, within
from headspec.tasks.task_heads import small


class Spans(Decoder):
    """Units are (first, last, type): cross-entropy of each word's tag; the likeliest tag is predicted."""

    def add_layers(self, hidden: int) -> None:
        self.scores = small(nn.Linear(hidden, bio.classes(len(self.labels))))

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        scores = self.scores(states).float()
        sentence, unit = (targets[..., -1] != NONE).nonzero(as_tuple=True)
        best = bio.word_classes(sentence, targets[sentence, unit], (states.shape[0], states.shape[1]))
        losses = F.cross_entropy(scores.transpose(1, 2), best, reduction="none")
        return masked_means(losses, within(lengths, states))

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        best = self.scores(states).float().amax(-1)
        return (best * within(lengths, best)).sum(1)

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        best = self.scores(states).float().argmax(-1).cpu().tolist()
        return [list(bio.spans(row[:length])) for row, length in zip(best, lengths, strict=True)]


HEAD = Spans
