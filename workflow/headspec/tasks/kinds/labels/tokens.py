"""Tokens of texts and pairs, with their labels as rows of 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec import per_example
from headspec.tasks.kinds.labels.sets import indicators
from headspec.tasks.kinds.texts.tokens import TextEncoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class LabelEncoding(TextEncoding):
    """Encoding with label 1 for each of `classes["labels"]` of an example, else 0."""

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        texts = table.drop(columns="label", errors="ignore")
        frame, truncated = super().encode(tokenizer, texts, max_length, None)
        if "label" in table:
            rows = indicators(table["label"], classes["labels"])
            frame = frame.assign(**per_example.columns("label", rows))
        return frame, truncated


ENCODING = LabelEncoding()
