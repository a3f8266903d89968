"""Task heads, from an encoder's states to losses and predictions: `HEAD` of a kind of task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from headspec.tasks.parts import Classes, load_part, type_of

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.language import LanguageHead
    from headspec.models.multitask import MultiTask


@dataclass
class Targets:
    """Labels of a batch, in fields with one item per example, used like a tensor of labels."""

    def __getitem__(self, rows: slice) -> Self:
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def to(self, device: str, *, non_blocking: bool = True) -> Self:
        """Move the tensors to a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        moved = {name: value.to(device, non_blocking=non_blocking) for name, value in tensors.items()}
        return replace(self, **moved)


class Gold:
    """Labels of all examples of a task, used like a tensor of labels.

    `columns` have one item per example; `collate` makes `Targets` from lists of a batch's items.
    """

    def __init__(self, collate: Callable[..., Targets | torch.Tensor], **columns: Sequence[Any] | np.ndarray):
        self.collate, self.columns = collate, columns

    def __getitem__(self, rows: np.ndarray) -> Targets | torch.Tensor:
        """Return the targets of the examples `rows`, (batch,), on the CPU."""
        return self.collate(**{name: [column[row] for row in rows] for name, column in self.columns.items()})


class Predicted(NamedTuple):
    """Predictions of a batch; `texts` are what the model wrote, `probabilities` are (batch, classes) float32.

    `values` are class indices or scores, (batch,), or numbers for metrics, (batch, b); nan where logits are
    not finite.
    """

    values: torch.Tensor
    probabilities: torch.Tensor | None = None
    texts: list[str] | None = None


class TaskHead(nn.Module):
    """The layers and decoding for one task, after the encoder.

    Attributes
    ----------
    own_rate : whether `training.decoder_learning_rate` applies
    longest, beams : maximum length of a written text in tokens, 0 for none; and the beam width
    reads_again : whether predictions may need more passes of the encoder than `pool`
    whole_vocabulary : whether it uses the embeddings of tokens that no example has
    regresses : whether it predicts scores
    smoothing : label smoothing of written tokens
    """

    own_rate = False
    longest = 0
    beams = 1
    reads_again = False
    whole_vocabulary = False
    regresses = False
    smoothing = 0.0

    def __init__(self, model: MultiTask, classes: Any) -> None:
        super().__init__()

    @classmethod
    def for_classes(cls, classes: Any) -> type[TaskHead]:
        """Return the class of heads for these `Classes`."""
        return cls

    @classmethod
    def build(cls, model: MultiTask, classes: Any) -> TaskHead:
        """Return an untrained head for these `Classes`."""
        return cls(model, classes)

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold | torch.Tensor:
        """Return the gold labels of examples in a table 'tokens'; by default the column `label`, (n,)."""
        return torch.tensor(frame["label"].to_numpy())

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """Return the input states of the head, (batch, ..., hidden); by default the vectors of texts."""
        return model.vectors(batch)

    @classmethod
    def read(cls, model: MultiTask, batch: Batch) -> None:
        """Run every layer of the model on a batch."""
        cls.pool(model, batch)

    @classmethod
    def attending(cls, model: MultiTask, batch: Batch) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Return, by kind of attention, ids of the tokens that attend and the mask of real tokens.

        Both are (batch, tokens).
        """
        return dict.fromkeys(model.gates.first_rows, (batch.input_ids, batch.attention_mask.bool()))

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        """Return logits of one prediction per example, (batch, classes), or (batch, 1) for scores.

        Raises NotImplementedError if examples have no such logits.
        """
        raise NotImplementedError(f"{type(self).__name__} has no logits of whole examples")

    def restrict(self, language: LanguageHead, tokens: Sequence[int]) -> None:
        """Restrict a language-model head to these answers, one token per class.

        Raises NotImplementedError if answers are not single tokens.
        """
        raise NotImplementedError(f"{type(self).__name__} has no answers of one token")

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the loss of each example, (batch,), float32."""
        raise NotImplementedError

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the logit behind each prediction, or the sum or mean of several, (batch,)."""
        return self.logits(model, states, targets).amax(1)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return the predictions of a batch from its states, as in `pool`."""
        raise NotImplementedError

    def answer(self, model: MultiTask, batch: Batch) -> Predicted:
        """Return the predictions of a batch."""
        return self.predict(model, model.pool(batch), batch.labels)

    def costs(self, model: MultiTask, batch: Batch) -> torch.Tensor:
        """Return what heads are scored by where no derivative is needed, (batch,): by default losses."""
        return self.losses(model, model.pool(batch), batch.labels)

    def settle(self, task: str) -> None:
        """Raise what went wrong in predictions so far, if it could wait; to be called after the last."""


class TokenHead(TaskHead):
    """A head on the states of all tokens."""

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """Return the states of all tokens, (batch, tokens, hidden)."""
        return model.states(batch)


def padded(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    """Return rows of numbers as a matrix, (rows, longest), padded with `fill`."""
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], True, fill)


def small(layer: nn.Linear) -> nn.Linear:
    """Initialise a layer with small weights and a bias of 0, and return it."""
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def unless_broken(values: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Return `values` (batch, ...), with nan where `seen` (batch, ...), their source, is not finite."""
    broken = ~seen.isfinite().flatten(1).all(1)
    return values.masked_fill(broken.reshape(-1, *[1] * (values.dim() - 1)), torch.nan)


def head_class(classes: Classes) -> type[TaskHead]:
    """Return the class of heads for a task: `HEAD` of its kind."""
    return cast(type[TaskHead], load_part(type_of(classes), "HEAD")).for_classes(classes)
