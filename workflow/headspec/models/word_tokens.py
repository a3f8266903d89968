"""Tokens of texts with known words, and the word of each token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.errors import ModelError
from headspec.models.batching import Examples
from headspec.models.pretrained.config_json import positions
from headspec.tasks.parts import Classes
from headspec.tasks.tokens import encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


#: word of tokens outside words
NO_WORD = -1


def with_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]], max_length: int | None = None
) -> tuple[dict[str, list[Any]], list[np.ndarray]]:
    """Tokenize sentences, their words joined by spaces; return the tokenizer's fields and the tokens' words.

    The words of a sentence are indices (tokens,), -1 for tokens outside words. A token belongs to the word of
    its last character, spaces excluded, because tokens may start with a space. Slow tokenizers do not
    report characters: there, the tokens of each word alone are counted, and if the counts do not add up to
    the sentence's, no token has a word.
    """
    texts = [" ".join(words) for words in sentences]
    cut: dict[str, Any] = {"truncation": True, "max_length": max_length} if max_length else {}
    encoded = tokenizer(
        texts, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False, **cut
    )
    special = encoded.pop("special_tokens_mask")
    if not tokenizer.is_fast:
        return dict(encoded), [
            _one_by_one(tokenizer, words, marks) for words, marks in zip(sentences, special, strict=True)
        ]
    offsets = encoded.pop("offset_mapping")
    words_of = []
    for words, places, is_special in zip(sentences, offsets, special, strict=True):
        ends = (
            np.cumsum([len(word) + 1 for word in words]) - 1
        )  # exclusive ends of words: positions of spaces
        first, last = np.array(places).T - [[0], [1]]
        last = last - (
            np.isin(last, ends) & (first < last)
        )  # without a trailing space, which some punctuation includes
        word = np.searchsorted(ends, last, side="right").astype(np.int64)
        word[np.array(is_special, dtype=bool)] = NO_WORD
        words_of.append(word)
    return dict(encoded), words_of


def _one_by_one(
    tokenizer: PreTrainedTokenizerBase, words: Sequence[str], special: Sequence[int]
) -> np.ndarray:
    """Return each token's word, (tokens,), or -1; all -1 if words alone give another number of tokens."""
    owners = np.repeat(np.arange(len(words)), [len(tokenizer.tokenize(word)) for word in words])
    words_of, real = np.full(len(special), NO_WORD, dtype=np.int64), ~np.array(special, dtype=bool)
    if real.sum() == len(owners):
        words_of[real] = owners
    return words_of


def separators(tokenizer: PreTrainedTokenizerBase, classes: Iterable[Classes] = ()) -> set[int]:
    """Return the special tokens that end texts or separate the two texts of a pair.

    The set is empty for a tokenizer that only starts texts with a token and does not mark pairs. The first
    token of a text is not a separator, though some tokenizers start texts with the same token. `classes` of
    tasks give the last tokens of texts that the model writes, and their languages, to which the tokenizer is
    set.
    """
    tokens: set[int] = set()
    for task in [*classes] or [None]:
        kind = encoding(task)
        kind.begin(tokenizer, task)
        tokens |= {*kind.ends(task)}
        pair = tokenizer("a", "b", return_special_tokens_mask=True)
        special = zip(pair["input_ids"][1:], pair["special_tokens_mask"][1:], strict=True)
        tokens |= {token for token, is_special in special if is_special}
    return tokens


@dataclass
class WordTokens:
    """Tokenized sentences that are short enough for the model, identified by `example`.

    `words` has the index of each token's word, or -1.
    """

    examples: Examples
    words: list[np.ndarray]


def encode_words(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    config: Mapping[str, Any],
    prefixes: Sequence[str] = ("",),
) -> tuple[WordTokens, dict[str, int]]:
    """Tokenize the sentences that fit the model; count the rest.

    The counts are of sentences with more tokens than the model has positions (`too_long`), and of those with
    a word that has no tokens (`lost_words`). `config` is the model's config.json; `prefixes` are texts before
    the sentences, used in turn, whose tokens belong to no word. Raises ModelError if no sentence is left.
    """
    longest = positions(config) or np.inf
    before = [prefix.split() for prefix in prefixes]
    turns = [before[row % len(before)] for row in range(len(sentences))]
    encoded, token_words = with_words(
        tokenizer, [[*prefix, *words] for prefix, words in zip(turns, sentences, strict=True)]
    )
    token_words = [np.maximum(w - len(prefix), NO_WORD) for prefix, w in zip(turns, token_words, strict=True)]
    left_out = {"too_long": 0, "lost_words": 0}
    kept, words_kept = [], []
    for row, (words, word) in enumerate(zip(sentences, token_words, strict=True)):
        if len(word) > longest:
            left_out["too_long"] += 1
        elif len(np.unique(word[word >= 0])) < len(words):
            left_out["lost_words"] += 1
        else:
            kept.append(row)
            words_kept.append(word)
    if not kept:
        raise ModelError(
            f"none of {len(sentences)} sentences is left: {left_out['too_long']} have more than the model's "
            f"{longest} tokens, {left_out['lost_words']} have words without tokens"
        )
    kinds = encoded.get("token_type_ids") or [None] * len(sentences)
    columns = {"input_ids": encoded["input_ids"], "token_type_ids": kinds}
    frame = pd.DataFrame({name: [values[row] for row in kept] for name, values in columns.items()})
    return WordTokens(Examples(frame.assign(example=kept, label=np.nan)), words_kept), left_out
