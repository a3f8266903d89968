"""Tokens of texts and of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from headspec import per_example
from headspec.models.tokenization import once, special_tokens
from headspec.tasks.kinds.texts.label_sets import indicators
from headspec.tasks.tokens import Encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TextEncoding(Encoding):
    """Encoding of texts; the longer of two is cut first.

    The label is the index in `classes`, or a score; nan without labels.
    """

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        texts = [table[column].tolist() for column in ("text_a", "text_b") if table[column].notna().any()]
        read = _read(tokenizer, texts, max_length)
        if "label" not in table:
            label = pd.Series(np.nan, index=table.index)
        elif not isinstance(classes, list):
            label = table["label"].astype(float)
        else:
            label = table["label"].map({name: float(i) for i, name in enumerate(classes)})
        columns = {"example": table["example"], "label": label, "input_ids": read.ids}
        return pd.DataFrame(columns | {"token_type_ids": read.types or None}), read.truncated


class _Read(NamedTuple):
    ids: list[list[int]]
    types: list[list[int]]  # empty without token types
    truncated: int  # number of examples


def _read(tokenizer: PreTrainedTokenizerBase, texts: Sequence[list[str]], max_length: int) -> _Read:
    """Return the tokens of texts, or of pairs from two lists of texts, without doubling special tokens."""
    fast = tokenizer.is_fast
    split = [
        tokenizer(column, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
        for column in texts
    ]
    (start, end), own = special_tokens(tokenizer), [column["input_ids"] for column in split]
    begun = np.array([ids[: len(start)] == start for ids in own[0]]) * len(
        start
    )  # start tokens already there
    ended = np.array([ids[len(ids) - len(end) :] == end for ids in own[-1]]) * len(end)
    lengths = np.array([list(map(len, column)) for column in own])  # (texts, n)
    added = tokenizer.num_special_tokens_to_add(pair=len(texts) == 2) - begun - ended
    if fast:
        # tokenizers build the overflow of a truncation, which takes minutes and gigabytes for long pairs, so
        # first cut texts well beyond max_length, keeping the longer text longer
        keep = 2 * max_length + (lengths == lengths.max(0))
        texts = [
            [_cut(*arguments) for arguments in zip(column, tokens["offset_mapping"], limits, strict=True)]
            for column, tokens, limits in zip(texts, split, keep, strict=True)
        ]
    ids: list[list[int]] = [[]] * len(begun)
    types: list[list[int]] = [[]] * len(begun)
    for repeated in np.unique(begun):
        rows = np.flatnonzero(begun == repeated)
        encoded = tokenizer(
            *([column[row] for row in rows] for column in texts),
            truncation="longest_first",
            max_length=max_length + int(repeated),
        )
        kinds = encoded.get("token_type_ids")
        for i, row in enumerate(rows):
            part = once(encoded["input_ids"][i], start, end)
            ids[row] = encoded["input_ids"][i][part]
            if kinds:
                types[row] = kinds[i][part]
    return _Read(ids, types if kinds else [], int((lengths.sum(0) + added > max_length).sum()))


def _cut(text: str, offsets: list[tuple[int, int]], keep: int) -> str:
    """Cut a text after its first `keep` tokens with these offsets."""
    return text if len(offsets) <= keep else text[: offsets[keep][0]]


ENCODING = TextEncoding()


class LabelEncoding(TextEncoding):
    """Encoding with 1 for each of `classes["labels"]` that an example has, else 0."""

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        texts = table.drop(columns="label", errors="ignore")
        frame, truncated = super().encode(tokenizer, texts, max_length, None)
        if "label" in table:
            rows = indicators(table["label"], classes["labels"])
            frame = frame.assign(**per_example.columns("label", rows))
        return frame, truncated


LABELS_ENCODING = LabelEncoding()
