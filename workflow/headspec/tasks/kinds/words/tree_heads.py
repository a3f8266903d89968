"""Parsers with biaffine scores (Dozat and Manning 2017, arxiv.org/abs/1611.01734).

Dependencies are arcs between words. Constituents are spans (Stern, Andreas and Klein 2017,
arxiv.org/abs/1705.03919).
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.words.decoders import (
    Decoder,
    Given,
    Lengths,
    Units,
    masked_means,
    normalised,
    within,
)
from headspec.tasks.kinds.words.trees import PUNCTUATION, best_spans, best_tree
from headspec.tasks.kinds.words.units import NONE


class Projection(nn.Module):
    """Projection of states for one side of a pair, (..., inputs) to (..., size + 1); the last number is 1."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, size)
        nn.init.orthogonal_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Project (..., inputs) to (..., size + 1); the last number is 1, for a bias."""
        return F.pad(F.gelu(self.layer(normalised(states))), (0, 1), value=1.0)


def weights(*shape: int) -> nn.Parameter:
    """Return weights between two projections, small but not 0, so that gradients flow from the start."""
    return nn.Parameter(torch.empty(shape).normal_(std=0.02))


ARC, LABEL = 128, 64  # sizes of the projections


class Dependencies(Decoder):
    """Units are (word, head, relation): the loss is cross-entropy of each word's head and of its relation.

    Head 0 is the root, a learnt state; words follow. The predicted tree has the highest sum of head scores,
    and each word the likeliest relation to its head.
    """

    def add_layers(self, hidden: int) -> None:
        self.root = nn.Parameter(torch.empty(hidden).normal_())
        self.arc_word, self.arc_head = Projection(hidden, ARC), Projection(hidden, ARC)
        self.label_word, self.label_head = Projection(hidden, LABEL), Projection(hidden, LABEL)
        self.arc = weights(ARC + 1, ARC + 1)
        self.label = weights(len(self.labels), LABEL + 1, LABEL + 1)

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        head, label = (torch.full(states.shape[:2], NONE, device=states.device) for _ in range(2))
        sentence, unit = (targets[..., -1] != NONE).nonzero(as_tuple=True)
        word, above, relation = targets[sentence, unit].T[:3]  # (units,) each
        head[sentence, word] = torch.where(above == word, 0, above + 1)
        label[sentence, word] = relation
        arcs = self._arcs(states, lengths).transpose(1, 2)  # (batch, words + 1, words)
        arc_losses = F.cross_entropy(arcs, head, ignore_index=NONE, reduction="none")  # (batch, words)
        labels = self._labels(states, head.clamp(min=0)).transpose(1, 2)  # (batch, labels, words)
        label_losses = F.cross_entropy(labels, label, ignore_index=NONE, reduction="none")
        return masked_means(arc_losses + label_losses, head != NONE)

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        arcs = self._arcs(states, lengths)
        heads = self._trees(arcs, lengths)  # (batch, words)
        logits = arcs.gather(2, heads[..., None])[..., 0] + self._labels(states, heads).amax(-1)
        return logits.masked_fill(~within(lengths, states), 0).sum(1)

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        heads = self._trees(self._arcs(states, lengths), lengths)
        labels = self._labels(states, heads).argmax(-1).tolist()
        above = torch.where(heads == 0, torch.arange(heads.shape[1], device=heads.device), heads - 1).tolist()
        return [
            list(zip(range(length), above[row], labels[row], strict=False))
            for row, length in enumerate(lengths)
        ]

    @staticmethod
    def _trees(arcs: torch.Tensor, lengths: Lengths) -> torch.Tensor:
        """Return the head of each word in the best tree, from 1, (batch, words); 0 for root and padding."""
        scores = arcs.detach().cpu().double().nan_to_num(0).numpy()
        heads = np.zeros(arcs.shape[:2], dtype=np.int64)
        for row, length in enumerate(lengths):
            heads[row, :length] = best_tree(scores[row, :length, : length + 1])
        return torch.from_numpy(heads).to(arcs.device)

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        """Return the states of the root and the words, (batch, words + 1, hidden)."""
        return torch.cat([self.root.to(states.dtype).expand(len(states), 1, -1), states], 1)

    def _arcs(self, states: torch.Tensor, lengths: Lengths) -> torch.Tensor:
        """Return the scores of heads, (batch, words, words + 1), -inf for the word itself and padding."""
        heads = self.arc_head(self._heads(states))
        scores = torch.einsum("bwi,ij,bhj->bwh", self.arc_word(states), self.arc, heads).float()
        words = states.shape[1]
        itself = torch.eye(words, words + 1, device=states.device).bool().roll(1, 1)
        possible = F.pad(within(lengths, states), (1, 0), value=True)[:, None] & ~itself
        return scores.masked_fill(~possible, -torch.inf)

    def _labels(self, states: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        """Return the scores of each word's relation to its `head`, (batch, words, labels)."""
        rows = torch.arange(len(states), device=states.device)[:, None]
        above = self.label_head(self._heads(states))[rows, head]
        return torch.einsum("bwi,lij,bwj->bwl", self.label_word(states), self.label, above).float()


DEPENDENCIES_HEAD = Dependencies


SPAN = 128  # of the projections


class Constituents(Decoder):
    """Units are (first, last, labels): the loss is cross-entropy of the label, or no label, of every span.

    A tree's spans have the highest product of probabilities among all sets of spans that do not cross.
    """

    def add_layers(self, hidden: int) -> None:
        self.marks = [index for index, name in enumerate(self.labels) if name == PUNCTUATION]
        self.first, self.last = Projection(hidden, SPAN), Projection(hidden, SPAN)
        self.label = weights(len(self.labels) + 1, SPAN + 1, SPAN + 1)  # the last is for no label

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        scores = self._scores(states)  # (batch, words, words, labels + 1)
        none = scores.shape[-1] - 1
        label = torch.full(scores.shape[:3], none, device=states.device)
        wanted = targets[..., -1] != NONE
        for mark in self.marks:
            wanted = wanted & (targets[..., -1] != mark)
        sentence, unit = wanted.nonzero(as_tuple=True)
        first, last, wanted_label = targets[sentence, unit].T[:3]  # (units,) each
        label[sentence, first, last] = wanted_label
        losses = F.cross_entropy(scores.permute(0, 3, 1, 2), label, reduction="none")  # (batch, words, words)
        words = within(lengths, states)
        return masked_means(losses, (words[:, :, None] & words[:, None]).triu())

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        gain, _ = self._gains(states)
        in_tree = torch.zeros(gain.shape)  # (batch, words, words)
        for row, spans in enumerate(self._spans(gain, lengths)):
            for span in spans:
                in_tree[row][span] = 1
        return (gain * in_tree.to(gain.device)).sum((1, 2))

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        gain, label = self._gains(states)
        labels = label.cpu().numpy()
        return [
            [(*span, int(labels[row][span])) for span in spans]
            for row, spans in enumerate(self._spans(gain, lengths))
        ]

    @staticmethod
    def _spans(gain: torch.Tensor, lengths: Lengths) -> list[list[tuple[int, int]]]:
        """Return the spans of the best trees with a positive `gain`, (batch, words, words)."""
        gains = gain.detach().clamp(min=0).cpu().double().numpy()
        best = best_spans(gains, lengths)
        return [[span for span in spans if row[span] > 0] for row, spans in zip(gains, best, strict=True)]

    def _gains(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gain of each span's best label over no label, and this label, (batch, words, words)."""
        scores = self._scores(states).nan_to_num(0)
        best, label = scores[..., :-1].max(-1)
        return best - scores[..., -1], label

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        """Return scores by first word, last word and label, (batch, words, words, labels + 1)."""
        scores = torch.einsum("bfi,lij,bej->bfel", self.first(states), self.label, self.last(states)).float()
        if self.marks:
            scores[..., self.marks] = -torch.inf
        return scores


CONSTITUENTS_HEAD = Constituents
