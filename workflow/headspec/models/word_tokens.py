"""Tokens of texts whose words are known, and the special tokens that a tokenizer adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.errors import EncoderError
from headspec.models.batching import Examples
from headspec.models.decoders.base import NONE
from headspec.models.pretrained.config_json import positions
from headspec.words.base import gold_counts, parsed
from headspec.words.registry import implementation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def separators(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Ids of the special tokens that end texts or stand between the two texts of a pair.

    Empty for a tokenizer that only starts texts with a token and does not mark pairs. In a text, a token
    of these is a separator if it is not the first one, because some tokenizers start with the same token.
    """
    pair = tokenizer("a", "b", return_special_tokens_mask=True)
    special = zip(pair["input_ids"][1:], pair["special_tokens_mask"][1:], strict=True)
    return {token for token, is_special in special if is_special}


@dataclass
class WordTokens:
    """Tokenized sentences.

    Attributes
    ----------
    examples : the sentences that fit the model; `example` is the row in the table they come from
    words : for each, the word that every token belongs to, from 0, or -1 for special tokens
    """

    examples: Examples
    words: list[np.ndarray]


def encode_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]], config: Mapping[str, Any]
) -> tuple[WordTokens, dict[str, int]]:
    """Tokenize sentences of words, without any that do not fit the model.

    Parameters
    ----------
    config : the settings of the model's config.json

    Returns
    -------
    tokens
    left_out : numbers of sentences that have more tokens than the model has positions (`too_long`), and
        that have a word without tokens (`lost_words`), such as one of characters that the tokenizer drops

    Raises
    ------
    EncoderError
        No sentence is left.
    """
    longest = positions(config) or np.inf
    encoded, words_of = _with_words(tokenizer, sentences)
    left_out = {"too_long": 0, "lost_words": 0}
    kept, of_tokens = [], []
    for row, (words, word) in enumerate(zip(sentences, words_of, strict=True)):
        if len(word) > longest:
            left_out["too_long"] += 1
        elif len(np.unique(word[word >= 0])) < len(words):
            left_out["lost_words"] += 1
        else:
            kept.append(row)
            of_tokens.append(word)
    if not kept:
        raise EncoderError(
            f"none of {len(sentences)} sentences is left: {left_out['too_long']} have more than the model's "
            f"{longest} tokens, {left_out['lost_words']} have words without tokens"
        )
    kinds = encoded.get("token_type_ids") or [None] * len(sentences)
    columns = {"input_ids": encoded["input_ids"], "token_type_ids": kinds}
    frame = pd.DataFrame({name: [values[row] for row in kept] for name, values in columns.items()})
    return WordTokens(Examples(frame.assign(example=kept, label=np.nan)), of_tokens), left_out


def encode(
    tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: dict[str, Any]
) -> tuple[pd.DataFrame, int]:
    """Tokenize the sentences of a data table, cut after `max_length` tokens.

    Words that are cut, unless it is the first, are not predicted, and count as wrong. A word without tokens,
    such as one of characters that the tokenizer drops, has a state of zeros.

    Parameters
    ----------
    table : columns example, text_a (words, joined by spaces) and label (units)
    max_length : maximum number of tokens per sentence
    classes : `type` and `labels` of the task

    Returns
    -------
    frame : table 'tokens'
    truncated : number of sentences that had more than `max_length` tokens
    """
    sentences = [text.split(" ") for text in table["text_a"]]
    _, whole = _with_words(tokenizer, sentences)
    encoded, words = _with_words(tokenizer, sentences, max_length)
    long = [row for row, word in enumerate(whole) if len(word) > max_length]
    for row in long:
        last = words[row].max()
        if last > 0 and (words[row] == last).sum() < (whole[row] == last).sum():
            words[row][words[row] == last] = NONE
    units = [parsed(annotation) for annotation in table["label"]]
    label = gold_counts(implementation(classes["type"]), units, [len(sentence) for sentence in sentences])
    index = {name: i for i, name in enumerate(classes["labels"])}
    columns = {
        "example": table["example"],
        "label": label,
        "input_ids": encoded["input_ids"],
        "token_type_ids": encoded.get("token_type_ids") or [None] * len(table),
        "words": words,
        "units": [[[*unit[:-1], index.get(unit[-1], NONE)] for unit in of_sentence] for of_sentence in units],
    }
    return pd.DataFrame(columns), len(long)


def _with_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]], max_length: int | None = None
) -> tuple[dict[str, list], list[np.ndarray]]:
    """Tokens of sentences of words, joined by spaces, and the word of each token, or -1.

    A token belongs to the word of its last character, because tokens may start with a space.
    """
    texts = [" ".join(words) for words in sentences]
    cut: dict[str, Any] = {"truncation": True, "max_length": max_length} if max_length else {}
    encoded = tokenizer(
        texts, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False, **cut
    )
    offsets, special = encoded.pop("offset_mapping"), encoded.pop("special_tokens_mask")
    words_of = []
    for words, places, is_special in zip(sentences, offsets, special, strict=True):
        ends = np.cumsum([len(word) + 1 for word in words]) - 1  # of words, exclusive: places of spaces
        word = np.searchsorted(ends, np.array(places)[:, 1] - 1, side="right").astype(np.int64)
        word[np.array(is_special, dtype=bool)] = NONE
        words_of.append(word)
    return dict(encoded), words_of
