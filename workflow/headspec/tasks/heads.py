"""The heads of tasks: from the states of an encoder to losses and predictions; by kind of task.

The module `head` of a kind is imported when a task needs it, and is part of the code of no other job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import nn

from headspec.tasks import load_part
from headspec.tasks.classes import Classes, type_of

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.language.head import LanguageHead
    from headspec.models.multitask import MultiTask


class Targets(Protocol):
    """What the predictions of a batch are compared with; a tensor of labels is one."""

    def __getitem__(self, rows: slice, /) -> Any: ...

    def to(self, device: str, /, *, non_blocking: bool) -> Any: ...


class Gold(Protocol):
    """What the predictions of all examples of a task are compared with; a tensor of labels is one."""

    def __getitem__(self, rows: np.ndarray, /) -> Any:
        """The `Targets` of a batch, on the CPU."""


class Predicted(NamedTuple):
    """What a head predicts of a batch.

    Attributes
    ----------
    values : (batch,) class index or score, or (batch, b) numbers that metrics need; nan where what they
        follow from is not finite
    probabilities : (batch, classes), float32
    texts : that the model has written
    """

    values: torch.Tensor
    probabilities: torch.Tensor | None = None
    texts: list[str] | None = None


class Head(nn.Module):
    """What is behind the encoder for one task.

    Attributes
    ----------
    own_rate : whether the key `training.decoder_learning_rate` is about it
    longest : most tokens of a text that it writes; 0 of heads that write none
    beams : texts that are followed at once while it writes one
    reads_again : whether predictions may take more passes of the encoder than that of `pool`
    whole_vocabulary : whether embeddings of tokens count that no example has
    smoothing : in training, share of the probability of what is written that all tokens get alike
    """

    own_rate = False
    longest = 0
    beams = 1
    reads_again = False
    whole_vocabulary = False
    smoothing = 0.0

    def __init__(self, model: MultiTask, classes: Any) -> None:
        super().__init__()

    @classmethod
    def for_classes(cls, classes: Any) -> type[Head]:
        """Return the class of heads for these `Classes`."""
        return cls

    @classmethod
    def build(cls, model: MultiTask, classes: Any) -> Head:
        """An untrained head for a task of these `Classes`."""
        return cls(model, classes)

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        """What the examples of a table 'tokens' are compared with; by default their labels."""
        return torch.tensor(frame["label"].to_numpy())

    @classmethod
    def pool(cls, model: MultiTask, batch: Batch) -> torch.Tensor:
        """The states that heads take, (batch, ..., hidden); by default the vectors of texts."""
        return model.vectors(batch)

    @classmethod
    def read(cls, model: MultiTask, batch: Batch) -> None:
        """Run every layer of the model on a batch."""
        cls.pool(model, batch)

    @classmethod
    def attending(cls, model: MultiTask, batch: Batch) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Kind of attention: the tokens that attend in `read`, (batch, tokens), and the mask of real ones."""
        return dict.fromkeys(model.gates.first_rows, (batch.input_ids, batch.attention_mask.bool()))

    def logits(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> torch.Tensor:
        """Logits of what is predicted once for an example, (batch, classes); (batch, 1) of scores.

        Parameters
        ----------
        states : from `pool`
        targets : where logits are those of continuations, their tokens
        """
        raise NotImplementedError(f"{type(self).__name__} has no logits of whole examples")

    def restrict(self, language: LanguageHead, tokens: Sequence[int]) -> None:
        """Let the head of a language model answer with one of these tokens for each class."""
        raise NotImplementedError(f"{type(self).__name__} has no answers of one token")

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """The loss of each example, (batch,), float32."""
        raise NotImplementedError

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """The logit that each example's prediction follows from, or their sum or mean, (batch,)."""
        return self.logits(model, states, targets).amax(1)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """The predictions of a batch."""
        raise NotImplementedError

    def bleu(self, values: np.ndarray) -> float:
        """BLEU of texts that it has written, from `Predicted.values`."""
        raise NotImplementedError(f"{type(self).__name__} writes no texts")


def small(layer: nn.Linear) -> nn.Linear:
    """A layer, with small weights and no bias to begin with."""
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def unless_broken(values: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """`values` (batch, ...), nan where what they follow from, (batch, ...), is not finite."""
    broken = ~seen.isfinite().flatten(1).all(1)
    return values.masked_fill(broken.reshape(-1, *[1] * (values.dim() - 1)), torch.nan)


def head_class(classes: Classes) -> type[Head]:
    """Return the class of heads for a task: `HEAD` of its kind."""
    return cast(type[Head], load_part(type_of(classes), "head").HEAD).for_classes(classes)
