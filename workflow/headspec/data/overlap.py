"""Texts that several tasks share, and training examples on which other tasks are evaluated.

Texts are compared by their letters and digits, because the tasks of GLUE differ in the spaces around
punctuation; texts without any are compared without spaces.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

from headspec.characters import letters
from headspec.errors import DataError, listing
from headspec.seeds import derive

KEYS = ["key_a", "key_b"]
#: largest fraction of training examples that may be removed because other tasks are evaluated on them
MOST = 0.2


def with_keys(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return `frame` with uint64 columns key_a and key_b of text_a and text_b (null for single texts).

    Keys are hashes of `headspec.characters.letters`, 0 for empty texts, in an order that `seed` determines.
    """
    if set(KEYS) <= set(frame):
        return frame
    salt = derive(seed, "keys of texts").to_bytes(8, "big")
    columns = ("text_a", "text_b")
    keys = {key: _keys(frame[text], salt) for key, text in zip(KEYS, columns, strict=True)}
    return frame.assign(**keys)


def _keys(texts: pd.Series, salt: bytes) -> np.ndarray:
    keys = np.zeros(len(texts), dtype=np.uint64)
    for i, text in enumerate(texts):
        if isinstance(text, str) and (found := letters(text)):
            digest = hashlib.blake2b(found.encode("utf-8", "replace"), digest_size=8, key=salt)
            keys[i] = int.from_bytes(digest.digest(), "big")
    return keys


def row_keys(frame: pd.DataFrame) -> np.ndarray:
    """Return one key per row, (n,) uint64: of its text, or of both texts of a pair in any order."""
    return frame["key_a"].to_numpy() + frame["key_b"].to_numpy()


def occurs(frame: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Return which rows of `frame` occur in `other`, (n,) bool.

    Pairs match with both texts; a text matches a pair that contains it, and the reverse.
    """
    if _has_pairs(frame) and _has_pairs(other):
        complete = [(pairs["key_a"] != 0) & (pairs["key_b"] != 0) for pairs in (frame, other)]
        return complete[0].to_numpy() & np.isin(row_keys(frame), row_keys(other[complete[1]]))
    texts = np.concatenate([other[key].to_numpy() for key in KEYS])
    texts = texts[texts != 0]
    return np.logical_or.reduce([np.isin(frame[key].to_numpy(), texts) for key in KEYS])


def _has_pairs(frame: pd.DataFrame) -> bool:
    return bool((frame["key_b"] != 0).any())


def without_evaluated(
    name: str, train: pd.DataFrame, seen: Mapping[str, np.ndarray]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return training examples of `name` on which no other task is evaluated, and counts of those removed.

    `seen` has for each other task that shares an encoder which examples it is evaluated on, (n,) bool.
    Raise DataError if more than `MOST` of the examples would be removed.
    """
    counts = {other: int(mask.sum()) for other, mask in seen.items() if mask.any()}
    leaked = np.logical_or.reduce([np.zeros(len(train), dtype=bool), *seen.values()])
    if leaked.sum() > MOST * len(train):
        others = listing(f"'{other}' ({n})" for other, n in counts.items())
        raise DataError(
            f"tasks.{name}: {leaked.sum()} of {len(train)} training examples have texts on which {others} "
            f"is evaluated and would be left out, expected at most {MOST:.0%}. Give tasks with the same "
            "texts the same splits and validation_examples, or put them into different mixtures."
        )
    return train[~leaked], counts
