"""Texts to tokens, once per model and task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
from tokenizers import processors
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from headspec.architectures import folder
from headspec.encoders import location
from headspec.errors import EncoderError
from headspec.tables import FLOAT, INT, Schema

if TYPE_CHECKING:
    from headspec.sections import Model

# label: class index or score; null in a test set
ENCODED = Schema(
    {"example": INT, "label": FLOAT, "input_ids": pa.list_(INT), "token_type_ids": pa.list_(pa.int8())},
    keys=1,
)


def tokenizer(model: Model, key: str) -> PreTrainedTokenizerBase:
    """The model's own tokenizer, which gives token types if and only if the model takes them.

    EncoderError, naming `key`, where it has none that works here.
    """
    path = folder(model, key)
    try:
        found = AutoTokenizer.from_pretrained(**location(path), trust_remote_code=False)
        types = 0 if path.is_file() else _token_types(path)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise EncoderError(
            f"{key}.source: the tokenizer of '{model.source}' cannot be loaded: {reason}"
        ) from None
    if not found.is_fast:
        raise EncoderError(f"{key}.source: '{model.source}' has no fast tokenizer (tokenizer.json)")
    found.model_input_names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (types > 1)
    if not found.num_special_tokens_to_add(pair=True):
        delimit(found)
    return found


def _token_types(path: Path) -> int:
    config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    return getattr(config, "type_vocab_size", 0)


def delimit(tokenizer: PreTrainedTokenizerBase) -> None:
    """End every text with a token, where the tokenizer has no special tokens in texts (GPT, GPT-2, Qwen).

    Without it the two texts of a pair would run into one another. The token is the separator, or
    the end of a text, or (GPT, which has neither, and whose byte pairs hardly leave a word unknown)
    the unknown word; fine-tuning gives it its new meaning, as with the delimiter of Radford et al. 2018.
    """
    end = tokenizer.sep_token or tokenizer.eos_token or tokenizer.unk_token
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", end],
        pair=["$A", end, "$B:1", f"{end}:1"],
        special_tokens=[(end, tokenizer.convert_tokens_to_ids(end))],
    )


def encode(
    tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: list[str] | None
) -> tuple[pd.DataFrame, int]:
    """Tokens of every example of a data table, or of an unlabelled one.

    Pairs are joined as the tokenizer does it; of a pair that is too long the longer text is
    shortened first.

    Returns
    -------
    frame : the table `encoded`; `label` is the index in `classes`, or the score (no classes)
    truncated : number of examples that had more than `max_length` tokens

    Raises
    ------
    EncoderError
        An example has no token: an empty text, and a tokenizer that adds none.
    """
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
    # On truncating, tokenizers also build everything that overflows, which for pairs of long texts
    # takes minutes and gigabytes: cut far behind what is kept, the longer text one token later.
    keep = 2 * max_length + (lengths == lengths.max(0))
    shortened = [
        [_cut(*each) for each in zip(column, tokens, wanted, strict=True)]
        for column, tokens, wanted in zip(texts, offsets, keep, strict=True)
    ]
    encoded = tokenizer(*shortened, truncation="longest_first", max_length=max_length)
    numbered = zip(table["example"], encoded["input_ids"], strict=True)
    lacking = [example for example, ids in numbered if not ids]
    if lacking:
        raise EncoderError(
            f"{len(lacking)} texts, the first that of example {lacking[0]}, have no token: they are empty, "
            "and the tokenizer adds none; expected one that does, or data without them"
        )
    if "label" not in table:
        label = pd.Series(np.nan, index=table.index)
    elif classes is None:
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


def _cut(text: str, offsets: list[tuple[int, int]], keep: int) -> str:
    """`text` without the tokens, which begin and end at `offsets`, after the first `keep`."""
    return text if len(offsets) <= keep else text[: offsets[keep][0]]
