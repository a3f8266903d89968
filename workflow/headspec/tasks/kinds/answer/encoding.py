"""Tokens of questions and contexts; long contexts are cut into overlapping windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec import per_example
from headspec.errors import DataError
from headspec.tables import INT, TEXT, Schema
from headspec.tasks.kinds.answer.data import written
from headspec.tasks.kinds.answer.metrics import agreement, split_for
from headspec.tasks.tokens import Encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: share of a window's context tokens that the next window repeats
OVERLAP = 1 / 3
#: minimum share of an example's tokens left for its context
LEAST = 1 / 4
#: position of tokens at which no answer can start or end
NONE = -1
COLUMNS = Schema(
    {
        "span": pa.list_(INT),
        "offsets": pa.list_(pa.list_(INT)),
        "windows": pa.list_(pa.list_(INT)),
        "window_types": pa.list_(pa.list_(INT)),
        "context": TEXT,
        "answers": pa.list_(TEXT),
    },
    keys=0,
    about={
        "span": "in questions, the first and the last token of the first answer; -1 without one",
        "offsets": "in questions, where each token of `input_ids` and `windows` begins and ends in the "
        "context, in characters; -1 for others",
        "windows": "in questions, `input_ids` and `token_type_ids` of further windows of a long context",
        "window_types": "in questions, `input_ids` and `token_type_ids` of further windows of a long context",
        "context": "in questions, the context",
        "answers": "in questions, the texts of the gold answers",
    },
)


class Pair(NamedTuple):
    """A question and its whole context: tokens and their types (empty if the model has none).

    `offsets` (tokens, 2) are the start and end of each token in the context, in characters; `NONE` elsewhere.
    """

    ids: list[int]
    kinds: list[int]
    offsets: np.ndarray

    @property
    def context(self) -> slice:
        """The tokens of the context."""
        places = np.flatnonzero(self.offsets[:, 0] != NONE)
        return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)

    def window(self, start: int, stop: int) -> Pair:
        """Return the question with these tokens of the context."""
        around = self.context
        kept = np.r_[: around.start, start:stop, around.stop : len(self.ids)]
        kinds = [self.kinds[i] for i in kept] if self.kinds else []
        return Pair([self.ids[i] for i in kept], kinds, self.offsets[kept])

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first and last token with any of these characters of the context, or `NONE`."""
        begins, ends = self.offsets.T
        own = np.flatnonzero((np.maximum(begins, start) < np.minimum(ends, stop)) & (begins != NONE))
        return (int(own[0]), int(own[-1])) if len(own) else (NONE, NONE)


def pairs(
    tokenizer: PreTrainedTokenizerBase, questions: Sequence[str], contexts: Sequence[str]
) -> list[Pair]:
    """Return questions and contexts as the tokenizer joins them, without truncation."""
    encoded = tokenizer(list(questions), list(contexts), return_offsets_mapping=True, verbose=False)
    windows = []
    for row, ids in enumerate(encoded["input_ids"]):
        in_context = np.array([text == 1 for text in encoded.sequence_ids(row)])[:, None]
        offsets = np.where(in_context, np.array(encoded["offset_mapping"][row]), NONE)
        kinds = encoded["token_type_ids"][row] if "token_type_ids" in encoded else []
        windows.append(Pair(ids, kinds, offsets))
    return windows


def windows(pair: Pair, max_length: int) -> list[Pair]:
    """Return a question with each part of its context that fits; ValueError if less than `LEAST` is left."""
    if len(pair.ids) <= max_length:
        return [pair]
    context = pair.context
    around = len(pair.ids) - (context.stop - context.start)
    room = max_length - around
    if room < LEAST * max_length:
        raise ValueError(
            f"its question has {around} tokens, with special ones; expected at most "
            f"{int((1 - LEAST) * max_length)} of max_length {max_length}"
        )
    step = room - int(OVERLAP * room)
    starts = range(context.start, max(context.start + 1, context.stop - room + step), step)
    return [pair.window(at, at + room) for at in (min(start, context.stop - room) for start in starts)]


def learnt_window(cut: Sequence[Pair], start: int, stop: int) -> tuple[int, tuple[int, int]]:
    """Return the index of the window to train on, and the answer's first and last token there.

    It has the most tokens of the answer and, on ties, the most context on both sides; without an answer, it
    is the first.
    """
    spans = [window.span(start, stop) for window in cut]

    def beside(i: int) -> tuple[int, int]:
        (first, last), context = spans[i], cut[i].context
        if first == NONE:
            return (0, 0)
        return last - first + 1, min(first - context.start, context.stop - 1 - last)

    best = max(range(len(spans)), key=lambda i: (*beside(i), -i))
    return best, spans[best]


class QuestionEncoding(Encoding):
    """Encoding with the training window first.

    Examples count as truncated if no window has the whole first answer. Raises DataError if a question leaves
    too little room for its context.
    """

    columns = COLUMNS

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        golds, examples = table["label"].map(written), table["example"]
        joined = pairs(tokenizer, table["text_a"].tolist(), table["text_b"].tolist())
        rows, labels, truncated = [], [], 0
        for pair, answers, example, context in zip(joined, golds, examples, table["text_b"], strict=True):
            try:
                cut = windows(pair, max_length)
            except ValueError as error:
                raise DataError(f"example {example}: {error}") from None
            text, start = answers[0] if answers else ("", 0)
            which, span = learnt_window(cut, start, start + len(text))
            first, last = pair.span(start, start + len(text))
            truncated += span[1] - span[0] < last - first
            texts = [text for text, _ in answers]
            rows.append(
                _row([cut[which], *cut[:which], *cut[which + 1 :]]) | {"span": span, "answers": texts}
            )
            labels.append(agreement("", texts, split_for(context))[:1])
        frame = pd.DataFrame(rows, index=table.index).assign(**per_example.columns("label", labels))
        return frame.assign(example=examples, context=table["text_b"]), truncated


def _row(cut: list[Pair]) -> dict[str, Any]:
    """Return windows as columns of the table; the first is used for training."""
    first, *others = cut
    return {
        "input_ids": first.ids,
        "token_type_ids": first.kinds or None,
        "offsets": [window.offsets.flatten().tolist() for window in cut],
        "windows": [window.ids for window in others],
        "window_types": [window.kinds for window in others],
    }


ENCODING = QuestionEncoding()
