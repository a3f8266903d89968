"""The word of each token of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: word of tokens outside words
NONE = -1


def with_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]], max_length: int | None = None
) -> tuple[dict[str, list], list[np.ndarray]]:
    """Tokenize sentences, joined by spaces; return fields of the tokenizer, and each token's word or -1.

    Tokens belong to the word of their last character that is not a space, because they may start with one.
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
        ends = np.cumsum([len(word) + 1 for word in words]) - 1  # of words, exclusive: places of spaces
        first, last = np.array(places).T - [[0], [1]]
        last = last - (np.isin(last, ends) & (first < last))  # not the space that a mark takes with it
        word = np.searchsorted(ends, last, side="right").astype(np.int64)
        word[np.array(is_special, dtype=bool)] = NONE
        words_of.append(word)
    return dict(encoded), words_of


def _one_by_one(
    tokenizer: PreTrainedTokenizerBase, words: Sequence[str], special: Sequence[int]
) -> np.ndarray:
    """Return each token's word, or -1; only -1 where words alone have another number of tokens."""
    owners = np.repeat(np.arange(len(words)), [len(tokenizer.tokenize(word)) for word in words])
    found, real = np.full(len(special), NONE, dtype=np.int64), ~np.array(special, dtype=bool)
    if real.sum() == len(owners):
        found[real] = owners
    return found
