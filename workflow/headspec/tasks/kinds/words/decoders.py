"""Common parts of heads of tasks on words: decoders of units from states of words."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F

from headspec.tasks.kinds.words.units import NONE, parsed, word_task
from headspec.tasks.kinds.words.units import Units as Named
from headspec.tasks.task_heads import Gold, Predicted, Targets, TaskHead, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.multitask import MultiTask

#: numbers of words that the model sees
Lengths = Sequence[int]
#: places of words, and the index of a label
Units = list[tuple[int, ...]]
#: units of each sentence known beforehand (`WordTask.given`)
Given = Sequence[Named]
#: most numbers in a unit, the size of targets where no sentence has a unit
WIDEST = 4


@dataclass
class Annotations(Targets):
    """The annotated units of sentences, with the `lengths` in words that the model sees.

    `targets` (batch, units, places + 1), int64, are units of these words with known labels, else `NONE`;
    `written` has all units, with names of labels (`words.units.written`).
    """

    lengths: list[int]
    targets: torch.Tensor
    written: list[str]

    @classmethod
    def padded(cls, lengths: list[int], units: list[Units], written: list[str]) -> Annotations:
        """Return annotations of sentences cut after `lengths` words; labels not in training are `NONE`."""
        seen = [
            [unit for unit in sentence if unit[-1] != NONE and max(unit[:-1]) < length]
            for sentence, length in zip(units, lengths, strict=True)
        ]
        width = max((len(unit) for sentence in units for unit in sentence), default=WIDEST)
        targets = np.full((len(seen), max(map(len, seen), default=0), width), NONE, dtype=np.int64)
        for row, sentence in zip(targets, seen, strict=True):
            row[: len(sentence)] = sentence if sentence else row[:0]
        return cls(lengths, torch.from_numpy(targets), written)

    @cached_property
    def gold(self) -> list[Named]:
        """All units of each sentence with names of labels, read once for all masks of a batch."""
        return [parsed(annotation) for annotation in self.written]

    def labelled(self, labels: Container[Any]) -> list[Named]:
        """Return the units of each sentence with one of these labels, in words that the model sees."""
        return [
            [unit for unit in units if unit[-1] in labels and max(unit[:-1]) < length]
            for units, length in zip(self.gold, self.lengths, strict=True)
        ]


class Decoder(TaskHead):
    """Losses and predicted units of sentences, from states of words."""

    own_rate = True

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.kind, self.labels = word_task(classes["type"]), classes["labels"]
        self.add_layers(model.hidden)

    def add_layers(self, hidden: int) -> None:
        """Add untrained layers on states of size `hidden`, for `labels`."""
        raise NotImplementedError

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        lengths = [int(max(words)) + 1 for words in frame["words"]]
        units = [[tuple(unit) for unit in units] for units in frame["units"]]
        return Gold(Annotations.padded, lengths=lengths, units=units, written=frame["target"].tolist())

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """Return the states of words, (batch, words, hidden)."""
        states = model.states(batch)
        assert batch.words is not None
        return batch.words.to(states.dtype) @ states

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return self.sentence_losses(model.dropout(states), targets.lengths, targets.targets)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        given = targets.labelled(self.kind.given)
        return self.sentence_evidence(model.dropout(states), targets.lengths, given)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return the counts of each sentence's predicted units for metrics, (batch, counts)."""
        given = targets.labelled(self.kind.given)
        decoded = self.decode(model.dropout(states), targets.lengths, given)
        pairs = zip(targets.gold, named(decoded, self.labels), strict=True)
        counts = [self.kind.count(gold, units) for gold, units in pairs]
        values = torch.tensor(counts, dtype=torch.float32, device=states.device)
        return Predicted(unless_broken(values, states))

    def sentence_losses(self, states: torch.Tensor, lengths: Lengths, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of each sentence's decisions, (batch,), from states (batch, words, hidden)."""
        raise NotImplementedError

    def sentence_evidence(self, states: torch.Tensor, lengths: Lengths, given: Given) -> torch.Tensor:
        """Return the sum of the logits behind each prediction, (batch,) float32."""
        raise NotImplementedError

    def decode(self, states: torch.Tensor, lengths: Lengths, given: Given) -> list[Units]:
        """Return the predicted units of each sentence, from states (batch, words, hidden)."""
        raise NotImplementedError


def named(sentences: Sequence[Units], names: Sequence[str]) -> list[Named]:
    """Return units with the names of their labels."""
    return [[(*unit[:-1], names[unit[-1]]) for unit in units] for units in sentences]


def normalised(states: torch.Tensor) -> torch.Tensor:
    """Return states (..., hidden) with mean 0 and variance 1, since layers learn slowly from small states."""
    return F.layer_norm(states, states.shape[-1:])


def masked_means(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean of values (batch, ...) in `mask`, (batch,); 0 for an empty mask."""
    axes = tuple(range(1, values.dim()))
    return (values * mask).sum(axes) / mask.sum(axes).clamp(min=1)


def within(lengths: Lengths, states: torch.Tensor) -> torch.Tensor:
    """Return the mask of words in padded sentences, (batch, words) bool."""
    ends = torch.as_tensor(lengths, device=states.device)
    return torch.arange(states.shape[1], device=states.device) < ends[:, None]
