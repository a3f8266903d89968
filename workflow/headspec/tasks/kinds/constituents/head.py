"""A span-based parser (Stern, Andreas and Klein 2017, arxiv.org/abs/1705.03919) with biaffine scores."""

import torch
from torch.nn import functional as F

from headspec.tasks.kinds.constituents.cky import best_spans
from headspec.tasks.kinds.constituents.units import PUNCTUATION
from headspec.tasks.kinds.words.base import NONE
from headspec.tasks.kinds.words.biaffine import Projection, weights
from headspec.tasks.kinds.words.head import Decoder, Given, Lengths, Units, masked_means, within

SIZE = 128  # of the projections


class Constituents(Decoder):
    """Units are (first, last, labels): cross-entropy of the label of every span, or of no label.

    A tree's spans have the highest product of probabilities among all sets of spans that do not cross.
    """

    def add_layers(self, hidden: int) -> None:
        self.marks = [index for index, name in enumerate(self.labels) if name == PUNCTUATION]
        self.first, self.last = Projection(hidden, SIZE), Projection(hidden, SIZE)
        self.label = weights(len(self.labels) + 1, SIZE + 1, SIZE + 1)  # the last is for no label

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        scores = self._scores(states)
        none = scores.shape[-1] - 1
        label = torch.full(scores.shape[:3], none, device=states.device)
        wanted = targets[..., -1] != NONE
        for mark in self.marks:
            wanted = wanted & (targets[..., -1] != mark)
        sentence, unit = wanted.nonzero(as_tuple=True)
        first, last, wanted_label = targets[sentence, unit].T[:3]
        label[sentence, first, last] = wanted_label
        losses = F.cross_entropy(scores.permute(0, 3, 1, 2), label, reduction="none")
        words = within(lengths, states)
        return masked_means(losses, (words[:, :, None] & words[:, None]).triu())

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        gain, _ = self._gains(states)
        found = torch.zeros(gain.shape)
        for row, spans in enumerate(self._spans(gain, lengths)):
            for span in spans:
                found[row][span] = 1
        return (gain * found.to(gain.device)).sum((1, 2))

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        gain, label = self._gains(states)
        labels = label.cpu().numpy()
        return [
            [(*span, int(labels[row][span])) for span in spans]
            for row, spans in enumerate(self._spans(gain, lengths))
        ]

    @staticmethod
    def _spans(gain: torch.Tensor, lengths: Lengths) -> list[list[tuple[int, int]]]:
        """Return the spans of the best trees that are likelier with a label."""
        gains = gain.detach().clamp(min=0).cpu().double().numpy()
        best = best_spans(gains, lengths)
        return [[span for span in spans if row[span] > 0] for row, spans in zip(gains, best, strict=True)]

    def _gains(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gain of each span's best label over none, and this label, (batch, words, words)."""
        scores = self._scores(states).nan_to_num(0)
        best, label = scores[..., :-1].max(-1)
        return best - scores[..., -1], label

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        """Return scores by first word, last word and label, (batch, words, words, labels + 1)."""
        scores = torch.einsum("bfi,lij,bej->bfel", self.first(states), self.label, self.last(states)).float()
        if self.marks:
            scores[..., self.marks] = -torch.inf
        return scores


HEAD = Constituents
