"""Tokens of texts and of pairs of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.tasks.tokens import Encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TextEncoding(Encoding):
    """Encoding of texts, cutting the longer first; the label is the index in `classes`, or a score."""

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        texts = [table[column].tolist() for column in ("text_a", "text_b") if table[column].notna().any()]
        offsets = [
            tokenizer(column, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
                "offset_mapping"
            ]
            for column in texts
        ]
        lengths = np.array([[len(tokens) for tokens in column] for column in offsets])  # (texts, n)
        special = tokenizer.num_special_tokens_to_add(pair=len(texts) == 2)
        truncated = int((lengths.sum(0) + special > max_length).sum())
        # tokenizers build the overflow of a truncation, which takes minutes and gigabytes for long pairs: so
        # cut texts well beyond max_length first, and keep the longer text longer
        keep = 2 * max_length + (lengths == lengths.max(0))
        shortened = [
            [_cut(*arguments) for arguments in zip(column, tokens, limits, strict=True)]
            for column, tokens, limits in zip(texts, offsets, keep, strict=True)
        ]
        encoded = tokenizer(*shortened, truncation="longest_first", max_length=max_length)
        if "label" not in table:
            label = pd.Series(np.nan, index=table.index)
        elif not isinstance(classes, list):
            label = table["label"].astype(float)
        else:
            label = table["label"].map({name: float(i) for i, name in enumerate(classes)})
        kinds = encoded.get("token_type_ids") or [None] * len(table)
        columns = {"example": table["example"], "label": label, "input_ids": encoded["input_ids"]}
        return pd.DataFrame(columns | {"token_type_ids": kinds}), truncated


def _cut(text: str, offsets: list[tuple[int, int]], keep: int) -> str:
    """Cut a text after its first `keep` tokens with these offsets."""
    return text if len(offsets) <= keep else text[: offsets[keep][0]]


ENCODING = TextEncoding()
