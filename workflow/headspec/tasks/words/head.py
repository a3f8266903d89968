"""What every decoder of a task on words does, and the annotations that it learns from."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F

from headspec.tasks.heads import Head, Predicted, unless_broken
from headspec.tasks.words.base import NONE, parsed, word_task
from headspec.tasks.words.base import Units as Named

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.multitask import MultiTask

#: places of words, and the index of a label
Units = list[tuple[int, ...]]
#: the most numbers in a unit, which targets have where no sentence has a unit
WIDEST = 4


@dataclass
class Annotations:
    """The annotated units of a batch of sentences.

    Attributes
    ----------
    lengths : (batch,), on the CPU: words that the model sees
    targets : (batch, units, places + 1), int64, on the device: units of these words with a label that
        training has; the rest is `NONE`
    written : all units of every sentence, with the names of their labels (`words.base.written`)
    """

    lengths: torch.Tensor
    targets: torch.Tensor
    written: list[str]

    def __getitem__(self, rows: slice) -> Annotations:
        return Annotations(self.lengths[rows], self.targets[rows], self.written[rows])

    @classmethod
    def of(cls, lengths: Sequence[int], annotated: list[Units], written: list[str]) -> Annotations:
        """Those of sentences of which the model sees the first `lengths` words.

        Parameters
        ----------
        annotated : all units, with label `NONE` if training does not have it
        """
        seen = [
            [unit for unit in units if unit[-1] != NONE and max(unit[:-1]) < length]
            for units, length in zip(annotated, lengths, strict=True)
        ]
        width = max((len(unit) for units in annotated for unit in units), default=WIDEST)
        targets = np.full((len(seen), max(map(len, seen), default=0), width), NONE, dtype=np.int64)
        for row, units in zip(targets, seen, strict=True):
            row[: len(units)] = units if units else row[:0]
        return cls(torch.tensor(lengths), torch.from_numpy(targets), written)

    def to(self, device: str, non_blocking: bool = True) -> Annotations:
        return Annotations(self.lengths, self.targets.to(device, non_blocking=non_blocking), self.written)

    @cached_property
    def gold(self) -> list[Named]:
        """All units of every sentence, with the names of their labels; read once for all masks of a batch."""
        return [parsed(annotation) for annotation in self.written]

    def labelled(self, labels: Container[Any]) -> list[Named]:
        """The units of every sentence with one of these labels, of words that the model sees."""
        return [
            [unit for unit in units if unit[-1] in labels and max(unit[:-1]) < length]
            for units, length in zip(self.gold, self.lengths.tolist(), strict=True)
        ]


@dataclass
class Gold:
    """The annotations of all sentences of a task.

    Attributes
    ----------
    seen : numbers of words that the model sees
    units : all units, with label `NONE` if training does not have it
    written : as in `Annotations`
    """

    seen: list[int]
    units: list[Units]
    written: list[str]

    def __getitem__(self, rows: np.ndarray) -> Annotations:
        seen, units = [self.seen[row] for row in rows], [self.units[row] for row in rows]
        return Annotations.of(seen, units, [self.written[row] for row in rows])


class Decoder(Head):
    """From the states of words to the loss and the predicted units of every sentence."""

    own_rate = True

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.kind, self.labels = word_task(classes["type"]), classes["labels"]

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        units = [[tuple(unit) for unit in units] for units in frame["units"]]
        return Gold([int(max(words)) + 1 for words in frame["words"]], units, frame["target"].tolist())

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """The states of words, (batch, words, hidden)."""
        states = model.output(batch).last_hidden_state
        assert batch.words is not None
        return batch.words.to(states.dtype) @ states

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return self.of_targets(model.dropout(states), targets.lengths, targets.targets)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return self.summed(model.dropout(states), targets.lengths, targets.labelled(self.kind.given))

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """What metrics count in the predicted units of every sentence."""
        given = targets.labelled(self.kind.given)
        decoded = self.decode(model.dropout(states), targets.lengths, given)
        pairs = zip(targets.gold, named(decoded, self.labels), strict=True)
        counts = [self.kind.count(gold, units) for gold, units in pairs]
        values = torch.tensor(counts, dtype=torch.float32, device=states.device)
        return Predicted(unless_broken(values, states))

    def of_targets(self, states: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of each sentence, (batch,): its mean over what is decided in it, in float32.

        Parameters
        ----------
        states : (batch, words, hidden)
        lengths, targets : as in `Annotations`
        """
        raise NotImplementedError

    def summed(self, states: torch.Tensor, lengths: torch.Tensor, given: Sequence[Named]) -> torch.Tensor:
        """The sum of the logits from which each sentence's prediction follows, (batch,), in float32.

        Parameters
        ----------
        given : units of its first `lengths` words that are known beforehand (`WordTask.given`)
        """
        raise NotImplementedError

    def decode(self, states: torch.Tensor, lengths: torch.Tensor, given: Sequence[Named]) -> list[Units]:
        """The predicted units of each sentence; parameters as of `summed`."""
        raise NotImplementedError


def named(sentences: Sequence[Units], names: Sequence[str]) -> list[Named]:
    """Units with the names of their labels."""
    return [[(*unit[:-1], names[unit[-1]]) for unit in units] for units in sentences]


def normalised(states: torch.Tensor) -> torch.Tensor:
    """States with mean 0 and variance 1; those of encoders differ, and small ones are learnt from slowly."""
    return F.layer_norm(states, states.shape[-1:])


def of_sentences(losses: torch.Tensor, decided: torch.Tensor) -> torch.Tensor:
    """The mean of the losses that are `decided`, (batch, ...) each, of every sentence; 0 where none is."""
    axes = tuple(range(1, losses.dim()))
    return (losses * decided).sum(axes) / decided.sum(axes).clamp(min=1)


def within(lengths: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Which words of padded sentences there are, (batch, words) bool, on the device of the states."""
    return torch.arange(states.shape[1], device=states.device) < lengths.to(states.device)[:, None]
