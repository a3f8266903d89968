"""A linear classifier for every word."""

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.words.base import NONE
from headspec.tasks.kinds.words.head import Decoder, Given, Lengths, Units, masked_means, within
from headspec.tasks.task_heads import small


class Tags(Decoder):
    """Units are (word, label): cross-entropy for each word; the likeliest label is predicted."""

    def add_layers(self, hidden: int) -> None:
        self.scores = small(nn.Linear(hidden, len(self.labels)))

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        scores = self.scores(states).float()
        label = torch.full(scores.shape[:2], NONE, device=scores.device)
        sentence, unit = (targets[..., -1] != NONE).nonzero(as_tuple=True)
        label[sentence, targets[sentence, unit, 0]] = targets[sentence, unit, 1]
        losses = F.cross_entropy(scores.transpose(1, 2), label, ignore_index=NONE, reduction="none")
        return masked_means(losses, label != NONE)

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        best = self.scores(states).float().amax(-1)
        return (best * within(lengths, best)).sum(1)

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        best = self.scores(states).float().argmax(-1).cpu().tolist()
        return [list(enumerate(row[:length])) for row, length in zip(best, lengths, strict=True)]


HEAD = Tags
