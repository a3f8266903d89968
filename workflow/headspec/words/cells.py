"""Cells of a table as lists: what Parquet, JSON lines, and text split at spaces have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def items(cell: Any) -> list[Any]:
    """The items of a list; those of a text are its parts between spaces."""
    if isinstance(cell, str):
        return cell.split()
    if isinstance(cell, (list, tuple, np.ndarray)):
        return list(cell)
    raise ValueError(f"it has {cell!r}, expected a list")


def one_per_word(words: Sequence[str], cell: Any, what: str) -> list[str]:
    """The items of a cell as texts, one for each word; ValueError if there are more, fewer, or empty ones."""
    found = items(cell)
    if len(found) != len(words):
        raise ValueError(f"it has {len(words)} words and {len(found)} {what}")
    for number, item in enumerate(found, 1):
        if item is None or item != item or str(item) in ("", "_"):
            raise ValueError(f"word {number} has no {what.removesuffix('s')}")
    return [str(item) for item in found]
