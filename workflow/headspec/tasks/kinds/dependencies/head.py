"""A biaffine parser (Dozat and Manning 2017, arxiv.org/abs/1611.01734)."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.dependencies.arborescence import best_tree
from headspec.tasks.kinds.words.base import NONE
from headspec.tasks.kinds.words.biaffine import Projection, weights
from headspec.tasks.kinds.words.head import Decoder, Given, Lengths, Units, masked_means, within

ARC, LABEL = 128, 64  # sizes of the projections


class Dependencies(Decoder):
    """Units are (word, head, relation): cross-entropy of each word's head and of its relation.

    Head 0 is the root, a learnt state; words follow. The tree has the highest sum of head scores, and each
    word its likeliest relation in it.
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
        word, above, relation = targets[sentence, unit].T[:3]
        head[sentence, word] = torch.where(above == word, 0, above + 1)
        label[sentence, word] = relation
        arcs = self._arcs(states, lengths).transpose(1, 2)
        arc_losses = F.cross_entropy(arcs, head, ignore_index=NONE, reduction="none")
        labels = self._labels(states, head.clamp(min=0)).transpose(1, 2)
        label_losses = F.cross_entropy(labels, label, ignore_index=NONE, reduction="none")
        return masked_means(arc_losses + label_losses, head != NONE)

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        arcs = self._arcs(states, lengths)
        heads = self._trees(arcs, lengths)
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


HEAD = Dependencies
