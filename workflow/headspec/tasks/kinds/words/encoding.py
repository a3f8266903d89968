"""Tokens of sentences, and the word of each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec import per_example
from headspec.errors import DataError
from headspec.models.word_tokens import with_words
from headspec.progress import log
from headspec.tables import INT, TEXT, Schema
from headspec.tasks.kinds.words.units import NONE, gold_counts, parsed, word_task
from headspec.tasks.tokens import Encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COLUMNS = Schema(
    {"words": pa.list_(INT), "units": pa.list_(pa.list_(INT)), "target": TEXT},
    keys=0,
    about={
        "words": "in tasks on words, the word of each token, from 0; -1 for special tokens",
        "units": "in tasks on words, places of words and the index of a label, -1 if training lacks it",
        "target": "in tasks on words, places of words and the name of a label",
    },
)
#: maximum share of words without tokens in a split
DROPPED = 0.05


def _check_dropped(
    sentences: Sequence[Sequence[str]], words: Sequence[np.ndarray], examples: Sequence[int]
) -> None:
    """Log how many words have no tokens; raise DataError if there are too many."""
    dropped = [
        (word, example)
        for sentence, places, example in zip(sentences, words, examples, strict=True)
        for place, word in enumerate(sentence)
        if place not in places
    ]
    if not dropped:
        return
    (word, example), total = dropped[0], sum(map(len, sentences))
    message = f"{len(dropped)} of {total} words have no tokens, such as {word!a} in example {example}"
    if len(dropped) > DROPPED * total:
        raise DataError(f"{message}; the tokenizer drops them")
    log.warning("%s; their states are zeros", message)


class WordEncoding(Encoding):
    """Encoding of words; those that are cut off, even in part, are not predicted and count as wrong.

    Only the first word is predicted from a part of its tokens. A word without tokens, because the tokenizer
    drops its characters, has a state of zeros.
    """

    columns = COLUMNS

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        """Tokenize labelled sentences; raise DataError if more than `DROPPED` of the words have no tokens."""
        sentences = [text.split(" ") for text in table["text_a"]]
        _, whole = with_words(tokenizer, sentences)
        _check_dropped(sentences, whole, table["example"].tolist())
        encoded, words = with_words(tokenizer, sentences, max_length)
        long = [row for row, word in enumerate(whole) if len(word) > max_length]
        for row in long:
            last = words[row].max()
            if last > 0 and (words[row] == last).sum() < (whole[row] == last).sum():
                words[row][words[row] == last] = NONE
        units = [parsed(annotation) for annotation in table["label"]]
        label = gold_counts(word_task(classes["type"]), units, [len(sentence) for sentence in sentences])
        index = {name: i for i, name in enumerate(classes["labels"])}
        columns = {
            "example": table["example"],
            **per_example.columns("label", label),
            "input_ids": encoded["input_ids"],
            "token_type_ids": encoded.get("token_type_ids") or [None] * len(table),
            "words": words,
            "units": [[[*unit[:-1], index.get(unit[-1], NONE)] for unit in sentence] for sentence in units],
            "target": table["label"],
        }
        return pd.DataFrame(columns), len(long)


ENCODING = WordEncoding()
