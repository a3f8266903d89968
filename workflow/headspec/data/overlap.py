"""Texts shared by tasks: training examples that other tasks are evaluated on, and groups of examples.

Texts are compared by their letters and digits, because GLUE's tasks differ in the spaces around punctuation;
texts without any are compared without spaces.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.data.characters import letters
from headspec.errors import DataError, listing
from headspec.seeds import derive

KEYS = ["key_a", "key_b"]
#: maximum fraction of training examples removed because other tasks are evaluated on them
MOST = 0.2


def with_keys(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return `frame` with uint64 columns key_a and key_b of text_a and text_b (null for single texts).

    Keys are hashes of `headspec.data.characters.letters`, salted by `seed`; 0 for empty texts. A frame that
    has keys is returned as it is.
    """
    if set(KEYS) <= set(frame):
        return frame
    salt = derive(seed, "keys of texts").to_bytes(8, "big")
    columns = ("text_a", "text_b")
    keys = {key: _keys(frame[text], salt) for key, text in zip(KEYS, columns, strict=True)}
    return frame.assign(**keys)


def _keys(texts: pd.Series, salt: bytes) -> np.ndarray:
    """Return a hash of the letters of each text, (texts,) uint64; 0 without letters."""
    keys = np.zeros(len(texts), dtype=np.uint64)
    for i, text in enumerate(texts):
        if isinstance(text, str) and (characters := letters(text)):
            digest = hashlib.blake2b(characters.encode("utf-8", "replace"), digest_size=8, key=salt)
            keys[i] = int.from_bytes(digest.digest(), "big")
    return keys


def row_keys(frame: pd.DataFrame) -> np.ndarray:
    """Return one key per row, (n,) uint64: of its text, or of both texts of a pair in either order."""
    keys: np.ndarray = frame["key_a"].to_numpy() + frame["key_b"].to_numpy()
    return keys


def occurs(frame: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Return which rows of `frame` occur in `other`, (n,) bool.

    Pairs match by both texts; a text matches a pair that contains it, and vice versa.
    """
    if _has_pairs(frame) and _has_pairs(other):
        complete = [(pairs["key_a"] != 0) & (pairs["key_b"] != 0) for pairs in (frame, other)]
        return complete[0].to_numpy() & np.isin(row_keys(frame), row_keys(other[complete[1]]))
    texts = np.concatenate([other[key].to_numpy() for key in KEYS])
    texts = texts[texts != 0]
    found: np.ndarray = np.any([np.isin(frame[key].to_numpy(), texts) for key in KEYS], axis=0)
    return found


def _has_pairs(frame: pd.DataFrame) -> bool:
    return bool((frame["key_b"] != 0).any())


def without_evaluated(
    name: str, train: pd.DataFrame, seen: Mapping[str, np.ndarray]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return training examples of `name` on which no other task is evaluated, and counts of those removed.

    `seen` marks, for each other task that shares an encoder, the examples that it is evaluated on, bool (n,).
    Raises DataError if more than `MOST` of the examples would be removed.
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


#: maximum number of texts in a group, and number of groups for which groups may be smaller
TEXTS, GROUPS = 12, 50
TEXT_COLUMNS = ("text_a", "text_b")


class Grouped(NamedTuple):
    """Groups for resampling examples, `group` (n,), shared by tasks with the same `source`."""

    source: str
    group: NDArray[np.intp]


def grouped(sources: Mapping[str, str], tables: Iterable[pd.DataFrame]) -> dict[str, Grouped]:
    """Return groups of examples for each task that shares texts, from the validation tables of all tasks.

    Pair tasks use every text twice, which links all pairs in a few rings. Texts, with partners close
    together, are cut into groups of `TEXTS`; an example is in the group of its first text, and in about one
    of six pairs the second text is in another group. `sources` maps each task to itself, or to the task whose
    texts it pairs.
    """
    by_task: dict[str, Grouped] = {}
    for tasks in _sharing(sources, stored := dict(zip(sources, tables, strict=True))):
        groups = _groups([stored[task] for task in tasks])
        by_task |= {task: Grouped(tasks[0], group) for task, group in zip(tasks, groups, strict=True)}
    return by_task


def _sharing(sources: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> list[list[str]]:
    """Return groups of tasks of one source that share texts, directly or through another task."""
    sets: list[tuple[list[str], set[str]]] = []
    for task, source in sources.items():
        texts = {*tables[task]["text_a"], *tables[task]["text_b"].dropna()}
        joined = [one for one in sets if sources[one[0][0]] == source and one[1] & texts]
        sets = [one for one in sets if one not in joined]
        members = [member for tasks, _ in joined for member in tasks]
        sets.append(([*members, task], texts.union(*(shared for _, shared in joined))))
    return [tasks for tasks, _ in sets if len(tasks) > 1]


def _groups(tables: Sequence[pd.DataFrame]) -> list[NDArray[np.intp]]:
    """Return the group of every example, (examples,) for each of the tables, which share texts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    texts = pd.Index(pd.concat([table[text] for table in tables for text in TEXT_COLUMNS]).dropna().unique())
    a, b = (np.concatenate([texts.get_indexer(table[text]) for table in tables]) for text in TEXT_COLUMNS)
    pairs = b >= 0
    links = coo_array((np.ones(np.count_nonzero(pairs)), (a[pairs], b[pairs])), (len(texts), len(texts)))
    order = reverse_cuthill_mckee((links + links.T).tocsr(), symmetric_mode=True)
    partnered = np.isin(order, np.union1d(a[pairs], b[pairs]))
    cut = np.arange(np.count_nonzero(partnered)) // max(1, min(TEXTS, len(texts) // GROUPS))
    group = np.empty(len(texts), dtype=np.intp)
    group[order[partnered]] = cut
    group[order[~partnered]] = cut.max(initial=-1) + 1 + np.arange(np.count_nonzero(~partnered))
    return np.split(group[a], np.cumsum([len(table) for table in tables])[:-1])
