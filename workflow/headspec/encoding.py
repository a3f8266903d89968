"""Texts to tokens, once per model and task."""

from __future__ import annotations

from typing import Any

import pandas as pd
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from headspec.architectures import folder
from headspec.errors import EncoderError
from headspec.study import Model


def tokenizer(model: Model, key: str) -> PreTrainedTokenizerBase:
    """The model's own tokenizer; EncoderError, naming `key`, where it has none that works here."""
    path = folder(model, key)
    try:
        found = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise EncoderError(
            f"{key}.source: the tokenizer of '{model.source}' cannot be loaded: {error}"
        ) from None
    if not found.is_fast:
        raise EncoderError(f"{key}.source: '{model.source}' has no fast tokenizer (tokenizer.json)")
    return found


def encode(
    tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: list[str] | None
) -> tuple[pd.DataFrame, int]:
    """Tokens of every example of a data table.

    Pairs are joined as the tokenizer does it; of a pair that is too long the longer text is
    shortened first.

    Returns
    -------
    frame : the table `encoded`; `label` is the index in `classes`, or the score (no classes)
    truncated : number of examples that had more than `max_length` tokens
    """
    pairs = None if table["text_b"].isna().all() else table["text_b"].tolist()
    encoded: Any = tokenizer(
        table["text_a"].tolist(), pairs, truncation="longest_first", max_length=max_length
    )
    truncated = sum(bool(encoding.overflowing) for encoding in encoded.encodings)
    if classes is None:
        label = table["label"].astype(float)
    else:
        label = table["label"].map({name: float(i) for i, name in enumerate(classes)})
    kinds = encoded.get("token_type_ids") or [None] * len(table)
    columns = {
        "example": table["example"],
        "label": label,
        "input_ids": encoded["input_ids"],
        "token_type_ids": kinds,
    }
    return pd.DataFrame(columns), truncated
