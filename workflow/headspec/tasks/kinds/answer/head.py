"""Prediction of the first and last token of an answer, from the states of a question and its context.

The first token of the input (the last in causal models) stands for no answer. Losses, evidence and importance
use the window with the answer; predictions take the best of all windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from headspec.models.batching import Batch, put
from headspec.tasks import task_heads
from headspec.tasks.kinds.answer.data import LONGEST
from headspec.tasks.kinds.answer.encoding import NONE, Pair
from headspec.tasks.kinds.answer.metrics import Split, agreement, split_for
from headspec.tasks.task_heads import Gold, Predicted, TokenHead, small, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.multitask import MultiTask


@dataclass
class Question:
    """An example: its windows, starting with that for training, where the answer is at `span`, or `NONE`."""

    windows: list[Pair]
    span: tuple[int, int]
    context: str
    golds: list[str]

    @classmethod
    def from_row(cls, row: Any) -> Question:
        """Return the example in a row of the table 'tokens'."""
        ids, types = [row.input_ids, *row.windows], [row.token_type_ids, *row.window_types]
        windows = [
            Pair(list(tokens), [] if kinds is None else list(kinds), np.asarray(offsets).reshape(-1, 2))
            for tokens, kinds, offsets in zip(ids, types, row.offsets, strict=True)
        ]
        first, last = row.span
        return cls(windows, (first, last), row.context, list(row.answers))

    @cached_property
    def split(self) -> Split:
        """The function that splits its answers for comparison."""
        return split_for(self.context)

    def window(self, k: int) -> Pair:
        """Return the k-th window, or the first if there are fewer."""
        return self.windows[k if k < len(self.windows) else 0]

    def text(self, window: int, first: int, last: int) -> str:
        """Return the text of a span of tokens."""
        offsets = self.window(window).offsets
        return self.context[offsets[first][0] : offsets[last][1]].strip()


@dataclass
class Targets(task_heads.Targets):
    """The questions of a batch.

    `allowed` (batch, tokens) tells where answers can start or end; `spans` (batch, 2) are `Question.span`.
    """

    questions: list[Question]
    allowed: torch.Tensor
    lengths: torch.Tensor
    spans: torch.Tensor

    @classmethod
    def padded(cls, questions: list[Question]) -> Targets:
        """Return the targets in the first window of each question."""
        lengths = [len(question.windows[0].ids) for question in questions]
        allowed = np.zeros((len(questions), max(lengths)), dtype=bool)
        for row, question in zip(allowed, questions, strict=True):
            starts, ends = question.windows[0].offsets.T
            row[: len(starts)] = starts < ends
        spans = np.array([question.span for question in questions], dtype=np.int64)
        return cls(questions, *map(torch.from_numpy, (allowed, np.array(lengths), spans)))

    def in_window(self, k: int, device: str) -> Batch:
        """Return the model's input for the k-th window of each question, with its targets."""
        targets = Targets.padded([replace(each, windows=[each.window(k)]) for each in self.questions])
        ids, kinds, mask = (np.zeros(targets.allowed.shape, dtype=np.int64) for _ in range(3))
        for row, question in enumerate(targets.questions):
            window, n = question.windows[0], len(question.windows[0].ids)
            ids[row, :n], mask[row, :n] = window.ids, 1
            kinds[row, :n] = window.kinds or 0
        types = put(kinds, device) if targets.questions[0].windows[0].kinds else None
        return Batch(put(ids, device), put(mask, device), types, targets.to(device), np.arange(len(ids)))


class Spans(NamedTuple):
    """The best span of each row: the sum of its logits, its first and its last token, (batch,) each."""

    scores: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor


def best(logits: torch.Tensor, allowed: torch.Tensor) -> Spans:
    """Return the likeliest spans of at most `LONGEST` tokens, from `logits` (batch, tokens, 2) of both ends.

    Ties go to the first, then the shortest span; without `allowed` tokens, the score is minus infinity.
    """
    first, last = logits.float().masked_fill(~allowed[..., None], -torch.inf).unbind(-1)
    padded = F.pad(last, (0, LONGEST - 1), value=-torch.inf)
    scores = first[..., None] + padded.unfold(1, LONGEST, 1)  # (batch, tokens, lengths)
    values, places = scores.flatten(1).max(1)
    start = places // LONGEST
    return Spans(values, start, start + places % LONGEST)


class Answers(TokenHead):
    """Two logits per token; only if `unanswerable`, no answer may be predicted."""

    reads_again = True

    def __init__(self, model: MultiTask, classes: Any) -> None:
        super().__init__(model, classes)
        self.ends: nn.Linear = small(nn.Linear(model.hidden, 2))
        self.unanswerable = bool(classes["unanswerable"])

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        return Gold(Targets.padded, questions=[Question.from_row(row) for row in frame.itertuples()])

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the mean cross-entropy of both ends, (batch,), over the context's tokens and no answer."""
        logits, none = self.ends(model.dropout(states)).float(), _none(model, targets)  # (batch, tokens, 2)
        rows = torch.arange(len(logits), device=logits.device)
        possible = targets.allowed.clone()
        possible[rows, none] = True
        spans = torch.where(targets.spans == NONE, none[:, None], targets.spans)  # (batch, 2)
        masked = logits.masked_fill(~possible[..., None], -torch.inf)
        return F.cross_entropy(masked, spans, reduction="none").mean(1)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        """Return the sum of both logits of the prediction in the window used for training, (batch,)."""
        _, spans, none = self._read(model, states, targets)
        return torch.where(self._absent(spans.scores, none), none, spans.scores)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return F1, exact match and text of the best span of all windows, or of no answer."""
        by_window = [self._read(model, states, targets)]
        for k in range(1, max(len(question.windows) for question in targets.questions)):
            batch = targets.in_window(k, str(states.device))
            by_window.append(self._read(model, self.pool(model, batch), batch.labels))
        scores = torch.stack([spans.scores for _, spans, _ in by_window])
        none = torch.stack([none for _, _, none in by_window]).amin(0)
        which = scores.argmax(0)
        absent = self._absent(scores.amax(0), none).tolist()
        places = torch.stack([torch.stack(spans[1:]) for _, spans, _ in by_window])  # (windows, 2, batch)
        rows = torch.arange(len(states), device=states.device)
        chosen = zip(which.tolist(), places[which, :, rows].tolist(), strict=True)
        texts = [
            "" if lacks else question.text(window, *span)
            for question, lacks, (window, span) in zip(targets.questions, absent, chosen, strict=True)
        ]
        answered = zip(texts, targets.questions, strict=True)
        values = [agreement(text, question.golds, question.split) for text, question in answered]
        seen = torch.cat([logits.flatten(1) for logits, _, _ in by_window], dim=1)
        agreeing = torch.tensor(values, dtype=torch.float64, device=states.device)
        return Predicted(unless_broken(agreeing, seen), texts=texts)

    def _read(
        self, model: MultiTask, states: torch.Tensor, targets: Targets
    ) -> tuple[torch.Tensor, Spans, torch.Tensor]:
        """Return the logits, (batch, tokens, 2), the best spans, and the scores of no answer, (batch,)."""
        logits = self.ends(model.dropout(states)).float()
        rows = torch.arange(len(logits), device=logits.device)
        return logits, best(logits, targets.allowed), logits[rows, _none(model, targets)].sum(1)

    def _absent(self, scores: torch.Tensor, none: torch.Tensor) -> torch.Tensor:
        """Return where no answer is likelier than the best span, or there is no span, bool (batch,)."""
        return (none > scores) & self.unanswerable | scores.isneginf()


def _none(model: MultiTask, targets: Targets) -> torch.Tensor:
    """Return the position of the token that stands for no answer, (batch,)."""
    return targets.lengths - 1 if model.pooling == "last" else torch.zeros_like(targets.lengths)


HEAD = Answers
