"""BIO tags of every word for every predicate, from the states of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from headspec.tasks.heads import small
from headspec.tasks.roles.units import PREDICATE
from headspec.tasks.words import bio_classes as bio
from headspec.tasks.words.base import NONE
from headspec.tasks.words.head import Decoder, Named, Units, normalised, of_sentences, within

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask

SIZE = 256  # of the hidden layer
FARTHEST = 16  # words from the predicate, beyond which all are alike


class Roles(Decoder):
    """Units are (predicate, first, last, role); predicates are given as (p, p, p, V).

    A word is classified by a layer on its state, that of the predicate, and how far it is from it, in the
    manner of Shi and Lin 2019 (arxiv.org/abs/1904.05255): cross-entropy of its tag, and its likeliest tag.
    """

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.predicate = self.labels.index(PREDICATE) if PREDICATE in self.labels else len(self.labels)
        self.of_word, self.of_predicate = nn.Linear(model.hidden, SIZE), nn.Linear(model.hidden, SIZE)
        self.distance = nn.Embedding(2 * FARTHEST + 1, SIZE)
        self.scores = small(nn.Linear(SIZE, bio.classes(len(self.labels))))

    def of_targets(self, states: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        rows, words = states.shape[:2]
        sentence, unit = (targets[..., -1] == self.predicate).nonzero(as_tuple=True)
        predicate = targets[sentence, unit, 0]
        number = torch.full((rows, words), NONE, device=states.device)  # of the predicate, in the batch
        number[sentence, predicate] = torch.arange(len(sentence), device=states.device)
        row, unit = ((targets[..., -1] != NONE) & (targets[..., -1] != self.predicate)).nonzero(as_tuple=True)
        roles = targets[row, unit]
        best = bio.of_words(number[row, roles[:, 0]], roles[:, 1:], (len(sentence), words))
        scores = self._scores(states, sentence, predicate)
        losses = F.cross_entropy(scores.transpose(1, 2), best, reduction="none")
        losses = of_sentences(losses, within(lengths, states)[sentence])
        return of_sentences(losses.expand(rows, -1), self._of_rows(sentence, rows))

    def summed(self, states: torch.Tensor, lengths: torch.Tensor, given: Sequence[Named]) -> torch.Tensor:
        sentence, predicate = _places(given).to(states.device)
        best = self._scores(states, sentence, predicate).amax(-1)
        of_predicates = (best * within(lengths, states)[sentence]).sum(1)
        return (of_predicates * self._of_rows(sentence, len(states))).sum(1)

    def decode(self, states: torch.Tensor, lengths: torch.Tensor, given: Sequence[Named]) -> list[Units]:
        places = _places(given)
        best = self._scores(states, *places.to(states.device)).argmax(-1).cpu().tolist()
        found: list[Units] = [[] for _ in given]
        for (row, predicate), tags in zip(places.T.tolist(), best, strict=True):
            found[row] += [(predicate, *span) for span in bio.spans(tags[: int(lengths[row])])]
        return found

    @staticmethod
    def _of_rows(sentence: torch.Tensor, rows: int) -> torch.Tensor:
        """Which predicates each sentence has, (rows, predicates) bool."""
        return sentence == torch.arange(rows, device=sentence.device)[:, None]

    def _scores(self, states: torch.Tensor, sentence: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
        """Scores of tags, (predicates, words, tags), of predicates by their sentence and place."""
        place = torch.arange(states.shape[1], device=states.device)
        distance = (place - predicate[:, None]).clamp(-FARTHEST, FARTHEST) + FARTHEST
        states = normalised(states)
        of_predicate = self.of_predicate(states)[sentence, predicate]
        layer = self.of_word(states)[sentence] + of_predicate[:, None] + self.distance(distance)
        return self.scores(F.gelu(layer)).float()


def _places(given: Sequence[Named]) -> torch.Tensor:
    """Sentence and word of every predicate, (2, predicates)."""
    places = [(row, unit[0]) for row, units in enumerate(given) for unit in units]
    return torch.tensor(places, dtype=torch.long).reshape(-1, 2).T


HEAD = Roles
