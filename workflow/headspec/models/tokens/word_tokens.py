"""Tokens of texts whose words are known, and the special tokens that a tokenizer adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.errors import EncoderError
from headspec.models.batching import Examples
from headspec.models.pretrained.config_json import positions
from headspec.tasks.classes import Classes
from headspec.tasks.tokens import encoding
from headspec.tasks.words.base import NONE
from headspec.tasks.words.tokens import with_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def separators(tokenizer: PreTrainedTokenizerBase, classes: Iterable[Classes] = ()) -> set[int]:
    """Ids of the special tokens that end texts or stand between the two texts of a pair.

    Empty for a tokenizer that only starts texts with a token and does not mark pairs. In a text, a token
    of these is a separator if it is not the first one, because some tokenizers start with the same token.

    Parameters
    ----------
    classes : of the tasks; those of what the model writes say in which languages texts are, and how they end
    """
    found: set[int] = set()
    for of_task in [*classes] or [None]:
        kind = encoding(of_task)
        kind.begin(tokenizer, of_task)
        found |= {*kind.ends(of_task)}
        pair = tokenizer("a", "b", return_special_tokens_mask=True)
        special = zip(pair["input_ids"][1:], pair["special_tokens_mask"][1:], strict=True)
        found |= {token for token, is_special in special if is_special}
    return found


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
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    config: Mapping[str, Any],
    prefixes: Sequence[str] = ("",),
) -> tuple[WordTokens, dict[str, int]]:
    """Tokenize sentences of words, without any that do not fit the model.

    Parameters
    ----------
    config : the settings of the model's config.json
    prefixes : texts before the sentences, which take turns; their tokens belong to no word

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
    before = [prefix.split() for prefix in prefixes]
    turns = [before[row % len(before)] for row in range(len(sentences))]
    encoded, words_of = with_words(
        tokenizer, [[*prefix, *words] for prefix, words in zip(turns, sentences, strict=True)]
    )
    words_of = [np.maximum(word - len(prefix), NONE) for prefix, word in zip(turns, words_of, strict=True)]
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
