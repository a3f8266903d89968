"""Pairs of continuations, the first of which should be likelier for a language model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.errors import DataError, listing
from headspec.tasks.kinds.texts.data import Texts

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


#: the continuations, in order
CLASSES = ["right", "wrong"]


class Pairs(Texts):
    """Pairs, which have no classes."""

    def classes(self, task: Task, labels: pd.Series) -> list[str]:
        return []


def check(pairs: pd.DataFrame, names: list[str], key: str, where: str) -> None:
    """Raise DataError if a continuation is empty, or equal to the other of its pair."""
    empty = (pairs.map(str.strip) == "").any(axis=1)
    same = pairs.iloc[:, 0] == pairs.iloc[:, 1]
    if (wrong := empty | same).any():
        row: Any = wrong.idxmax()
        found = "an empty text" if empty[row] else "the same text"
        raise DataError(
            f"{key}: row {row + 1} of {where} has {found} in {listing(names)}, expected two that differ "
            f"({wrong.sum()} of {len(wrong)} rows)"
        )


def answers(label: str) -> list[str]:
    """Return the right and the wrong answer of an example."""
    return [str(answer) for answer in json.loads(label)]
