"""Prediction of the tokens of texts, by a language model's head or by token embeddings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from headspec.tasks.kinds.language_modelling.encoding import NONE
from headspec.tasks.task_heads import Gold, Predicted, TaskHead, TokenHead, padded, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.multitask import MultiTask

#: maximum number of logits at once, so that memory does not grow with the vocabulary
LOGITS = 2**26


class Tokens(TokenHead):
    """Losses and predictions from logits; the loss of a text is the mean cross-entropy of its tokens."""

    whole_vocabulary = True

    @classmethod
    def build(cls, model: MultiTask, classes: Any) -> TaskHead:
        return (Tied if model.head is None else Own)(model, classes)

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        return Gold(partial(padded, fill=NONE), rows=[list(targets) for targets in frame["targets"]])

    def vocabulary_logits(self, model: MultiTask, states: torch.Tensor) -> torch.Tensor:
        """Return logits of tokens, (n, vocabulary) float32, from states (n, hidden)."""
        raise NotImplementedError

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        def measure(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(logits, tokens, reduction="none")[:, None]  # (n, 1)

        return _mean(self._token_values(model, states, targets, measure)[..., 0], targets)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the mean, over the predicted tokens of each text, of the largest logit, (batch,)."""
        largest = self._token_values(model, states, targets, lambda logits, _: logits.amax(1, keepdim=True))
        return _mean(largest[..., 0], targets)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return the number of tokens predicted right, and the surprisal of all in bits, (batch, 2)."""

        def measure(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            bits = F.cross_entropy(logits, tokens, reduction="none") / log(2)
            return torch.stack([(logits.argmax(1) == tokens).float(), bits], dim=1)  # (n, 2)

        values = self._token_values(model, states, targets, measure).double().sum(1)  # (batch, 2)
        return Predicted(unless_broken(values, torch.cat([states.flatten(1), values], dim=1)))

    def _token_values(
        self,
        model: MultiTask,
        states: torch.Tensor,
        targets: torch.Tensor,
        measure: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """Return `measure` of logits (n, vocabulary) and targets (n,), (batch, tokens, values).

        Values of tokens without a target are 0.
        """
        real = targets != NONE
        chosen, tokens = model.dropout(states)[real], targets[real]
        at_once = max(1, LOGITS // model.encoder.get_input_embeddings().num_embeddings)

        def found(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            return measure(self.vocabulary_logits(model, states), tokens)

        if len(chosen) <= at_once:
            values = found(chosen, tokens)
        else:
            parts = zip(chosen.split(at_once), tokens.split(at_once), strict=True)
            values = torch.cat([checkpoint(found, *part, use_reentrant=False) for part in parts])
        return values.new_zeros((*real.shape, values.shape[1])).index_put(real.nonzero(as_tuple=True), values)


def _mean(values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return means over the predicted tokens of each text, (batch,); 0 for texts without any."""
    return values.sum(1) / (targets != NONE).sum(1).clamp(min=1)


class Own(Tokens):
    """The language model's own head, unchanged."""

    def vocabulary_logits(self, model: MultiTask, states: torch.Tensor) -> torch.Tensor:
        assert model.head is not None
        logits: torch.Tensor = model.head(states)
        return logits


class Tied(Tokens):
    """Products of states, after a linear layer, with the token embeddings, plus a bias for each token.

    The layer is initialised as the identity, which gives the pretrained head of language models with tied
    embeddings (GPT-2, small Llamas and Qwens).
    """

    def __init__(self, model: MultiTask, classes: Any) -> None:
        super().__init__(model, classes)
        embeddings = model.encoder.get_input_embeddings()
        self.transform = nn.Linear(model.hidden, embeddings.embedding_dim)
        nn.init.eye_(self.transform.weight)
        nn.init.zeros_(self.transform.bias)
        self.bias = nn.Parameter(torch.zeros(embeddings.num_embeddings))

    def vocabulary_logits(self, model: MultiTask, states: torch.Tensor) -> torch.Tensor:
        embeddings = model.encoder.get_input_embeddings().weight
        return F.linear(self.transform(states), embeddings).float() + self.bias


HEAD = Tokens
