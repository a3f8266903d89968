"""Linear classifiers of words: tags, BIO tags of spans, and BIO tags of roles for every predicate.

Spans are encoded as classes of words: 0 outside, 2k + 1 at the start of a span of type k, 2k + 2 inside.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.kinds.words import spans
from headspec.tasks.kinds.words.decoders import (
    Decoder,
    Given,
    Lengths,
    Units,
    masked_means,
    normalised,
    within,
)
from headspec.tasks.kinds.words.spans import PREDICATE
from headspec.tasks.kinds.words.units import NONE
from headspec.tasks.task_heads import small


def bio_classes(types: int) -> int:
    """Return the number of classes of words for spans of so many types."""
    return 2 * types + 1


def word_classes(rows: torch.Tensor, spans: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Return classes of words in `shape` (rows, words), for spans (first, last, type) in these rows."""
    classes = torch.zeros(shape, dtype=torch.long, device=spans.device)
    place = torch.arange(shape[1], device=spans.device)
    span, word = ((place >= spans[:, :1]) & (place <= spans[:, 1:2])).nonzero(as_tuple=True)
    classes[rows[span], word] = 2 * spans[span, 2] + 1 + (word > spans[span, 0]).long()
    return classes


def bio_spans(best: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return (first, last, type) of the spans encoded by the classes of a sentence's words."""
    return spans.spans_of((each % 2 == 1, (each - 1) // 2) if each else None for each in best)


class ByWord(Decoder):
    """The likeliest class of each word, (batch, words, hidden) -> `scores` (batch, words, classes)."""

    scores: nn.Module

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        best: torch.Tensor = self.scores(states).float().amax(-1)  # (batch, words)
        return (best * within(lengths, best)).sum(1)

    def likeliest(self, states: torch.Tensor) -> list[list[int]]:
        classes: list[list[int]] = self.scores(states).float().argmax(-1).cpu().tolist()
        return classes


class Tags(ByWord):
    """Units are (word, label): the loss is cross-entropy of each word; the likeliest label is predicted."""

    def add_layers(self, hidden: int) -> None:
        self.scores = small(nn.Linear(hidden, len(self.labels)))

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        scores = self.scores(states).float()
        label = torch.full(scores.shape[:2], NONE, device=scores.device)  # (batch, words)
        sentence, unit = (targets[..., -1] != NONE).nonzero(as_tuple=True)  # (units,)
        label[sentence, targets[sentence, unit, 0]] = targets[sentence, unit, 1]
        losses = F.cross_entropy(scores.transpose(1, 2), label, ignore_index=NONE, reduction="none")
        return masked_means(losses, label != NONE)

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        best = zip(self.likeliest(states), lengths, strict=True)
        return [list(enumerate(row[:length])) for row, length in best]


TAGS_HEAD = Tags


class Spans(ByWord):
    """Units are (first, last, type): the loss is cross-entropy of BIO tags; the likeliest are predicted."""

    def add_layers(self, hidden: int) -> None:
        self.scores = small(nn.Linear(hidden, bio_classes(len(self.labels))))

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        scores = self.scores(states).float()
        sentence, unit = (targets[..., -1] != NONE).nonzero(as_tuple=True)
        best = word_classes(sentence, targets[sentence, unit], (states.shape[0], states.shape[1]))
        losses = F.cross_entropy(scores.transpose(1, 2), best, reduction="none")
        return masked_means(losses, within(lengths, states))

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        best = zip(self.likeliest(states), lengths, strict=True)
        return [list(bio_spans(row[:length])) for row, length in best]


SPANS_HEAD = Spans


SIZE = 256  # of the hidden layer
FARTHEST = 16  # words from the predicate, beyond which distances are not distinguished


class Roles(Decoder):
    """Units are (predicate, first, last, role); predicates are given as (p, p, p, V).

    A layer classifies the tag of each word from its state, the predicate's state and their distance, with
    cross-entropy, similar to Shi and Lin 2019 (arxiv.org/abs/1904.05255).
    """

    def add_layers(self, hidden: int) -> None:
        self.predicate = self.labels.index(PREDICATE) if PREDICATE in self.labels else len(self.labels)
        self.word_layer, self.predicate_layer = nn.Linear(hidden, SIZE), nn.Linear(hidden, SIZE)
        self.distance = nn.Embedding(2 * FARTHEST + 1, SIZE)
        self.scores = small(nn.Linear(SIZE, bio_classes(len(self.labels))))

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        rows, words = states.shape[:2]
        sentence, unit = (targets[..., -1] == self.predicate).nonzero(as_tuple=True)
        predicate = targets[sentence, unit, 0]  # (predicates,)
        number = torch.full((rows, words), NONE, device=states.device)  # of the predicate, in the batch
        number[sentence, predicate] = torch.arange(len(sentence), device=states.device)
        row, unit = ((targets[..., -1] != NONE) & (targets[..., -1] != self.predicate)).nonzero(as_tuple=True)
        roles = targets[row, unit]  # (roles, 4)
        best = word_classes(number[row, roles[:, 0]], roles[:, 1:], (len(sentence), words))
        scores = self._scores(states, sentence, predicate)  # (predicates, words, tags)
        losses = F.cross_entropy(scores.transpose(1, 2), best, reduction="none")
        losses = masked_means(losses, within(lengths, states)[sentence])  # (predicates,)
        return masked_means(losses.expand(rows, -1), self._predicates(sentence, rows))

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        sentence, predicate = _places(given).to(states.device)
        best = self._scores(states, sentence, predicate).amax(-1)  # (predicates, words)
        sums = (best * within(lengths, states)[sentence]).sum(1)  # (predicates,)
        return (sums * self._predicates(sentence, len(states))).sum(1)

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        places = _places(given)
        best = self._scores(states, *places.to(states.device)).argmax(-1).cpu().tolist()
        units: list[Units] = [[] for _ in given]
        for (row, predicate), tags in zip(places.T.tolist(), best, strict=True):
            units[row] += [(predicate, *span) for span in bio_spans(tags[: lengths[row]])]
        return units

    @staticmethod
    def _predicates(sentence: torch.Tensor, rows: int) -> torch.Tensor:
        """Return a bool mask of each sentence's predicates, (rows, predicates)."""
        return sentence == torch.arange(rows, device=sentence.device)[:, None]

    def _scores(self, states: torch.Tensor, sentence: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
        """Return scores of tags, (predicates, words, tags), for predicates given by sentence and word."""
        place = torch.arange(states.shape[1], device=states.device)
        distance = (place - predicate[:, None]).clamp(-FARTHEST, FARTHEST) + FARTHEST
        states = normalised(states)
        words = self.word_layer(states)[sentence]
        layer = words + self.predicate_layer(states)[sentence, predicate][:, None] + self.distance(distance)
        scores: torch.Tensor = self.scores(F.gelu(layer)).float()
        return scores


def _places(given: Given) -> torch.Tensor:
    """Return the sentence and word of each predicate, (2, predicates)."""
    places = [(row, unit[0]) for row, units in enumerate(given) for unit in units]
    return torch.tensor(places, dtype=torch.long).reshape(-1, 2).T


ROLES_HEAD = Roles
