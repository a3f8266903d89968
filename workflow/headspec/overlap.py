"""The same texts in several tasks: keys of texts, and training examples that another task is evaluated on.

Two texts are the same if they have the same letters and digits in the same order: GLUE's tasks write one
sentence with and without blanks around its commas.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from headspec.errors import DataError, listing
from headspec.seeds import derive

KEYS = ["key_a", "key_b"]
#: largest part of a task's training examples that may be taken out because others are evaluated on them
MOST = 0.2


def keyed(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """`frame` with the keys of its texts; as it is, where it has them.

    Parameters
    ----------
    frame : columns text_a, text_b (null for single texts)
    seed : the study's `data_seed`, by which the order of keys is another

    Returns
    -------
    DataFrame
        With columns key_a and key_b, uint64: a hash of the text's letters and digits, whatever their
        case; 0 where there are none.
    """
    if set(KEYS) <= set(frame):
        return frame
    salt = derive(seed, "keys of texts").to_bytes(8, "big")
    columns = ("text_a", "text_b")
    keys = {key: _keys(frame[text], salt) for key, text in zip(KEYS, columns, strict=True)}
    return frame.assign(**keys)


def _keys(texts: pd.Series, salt: bytes) -> np.ndarray:
    found = np.zeros(len(texts), dtype=np.uint64)
    for i, text in enumerate(texts):
        if isinstance(text, str) and (letters := re.sub(r"[\W_]+", "", text.casefold())):
            digest = hashlib.blake2b(letters.encode("utf-8", "replace"), digest_size=8, key=salt)
            found[i] = int.from_bytes(digest.digest(), "big")
    return found


def rows(frame: pd.DataFrame) -> np.ndarray:
    """One key, uint64, for each row: of its text, or of both texts of a pair in whichever order."""
    return frame["key_a"].to_numpy() + frame["key_b"].to_numpy()


def order(frame: pd.DataFrame) -> np.ndarray:
    """Positions 0..n-1 in an order that only the texts decide, not where they are stored or their labels."""
    return np.argsort(rows(frame), kind="stable")


def distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of single texts without those that have no letters, or the text of an earlier row."""
    return frame[(frame["key_a"] != 0) & ~frame["key_a"].duplicated()]


def occurs(frame: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Which rows of `frame` are in `other`, (n,) of bool.

    A pair is in a set of pairs if both of its texts are together there; a text is in a set of pairs, and
    a pair in a set of texts, if one text of one is a text of the other.
    """
    if _pairs(frame) and _pairs(other):
        whole = [(part["key_a"] != 0) & (part["key_b"] != 0) for part in (frame, other)]
        return whole[0].to_numpy() & np.isin(rows(frame), rows(other[whole[1]]))
    texts = np.concatenate([other[key].to_numpy() for key in KEYS])
    texts = texts[texts != 0]
    return np.logical_or.reduce([np.isin(frame[key].to_numpy(), texts) for key in KEYS])


def _pairs(frame: pd.DataFrame) -> bool:
    return bool((frame["key_b"] != 0).any())


def removed(
    name: str, train: pd.DataFrame, seen: Mapping[str, np.ndarray]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """A task's training examples without those that other tasks are evaluated on.

    Parameters
    ----------
    name : the task
    train : its examples, n rows
    seen : task that shares an encoder with it: which examples it is evaluated on, (n,) of bool

    Returns
    -------
    frame : what is left
    counts : other task: examples that went because of it; only tasks with any

    Raises
    ------
    DataError
        More than `MOST` of the examples would go.
    """
    counts = {other: int(mask.sum()) for other, mask in seen.items() if mask.any()}
    gone = np.logical_or.reduce([np.zeros(len(train), dtype=bool), *seen.values()])
    if gone.sum() > MOST * len(train):
        which = listing(f"'{other}' ({n})" for other, n in counts.items())
        raise DataError(
            f"tasks.{name}: {gone.sum()} of {len(train)} training examples have texts on which {which} is "
            f"evaluated, expected at most {MOST:.0%}, which are left out. Give tasks of the same texts the "
            "same splits and validation_examples, or put them into different mixtures."
        )
    return train[~gone], counts
