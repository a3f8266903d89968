"""Cells of a table as lists: stored lists, lists written as text, or text split at spaces."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.errors import shown

#: separates the items of a text; other kinds of spaces belong to them
SPACES = re.compile(r"[ \t\r\n]+")
#: Python tokens that are values
VALUES = {tokenize.STRING, tokenize.NUMBER, tokenize.NAME}


def parse_lists(column: pd.Series) -> pd.Series:
    """Parse a text column of lists in Python, JSON or numpy; ValueError has the row of a broken list."""
    present = column.dropna()
    texts = [cell.strip() if isinstance(cell, str) else "" for cell in present]
    if not texts or not all(text.startswith("[") and text.endswith("]") for text in texts):
        return column
    written = {}
    for row, cell in present.items():
        try:
            written[row] = _list(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise ValueError(f"row {int(str(row)) + 1} has {shown(cell)}, which is no list") from None
    return pd.Series(written, dtype=object, name=column.name).reindex(column.index)


def _list(text: str) -> list[Any]:
    try:
        return json.loads(text)
    except ValueError:
        pass
    parts: list[str] = []
    after_value = False
    for token in tokenize.generate_tokens(io.StringIO(text.replace("\n", " ")).readline):
        # numpy writes no commas, and Python would join texts side by side, and subtract numbers
        if after_value and (token.type in VALUES or token.string in ("[", "{", "-")):
            parts.append(",")
        parts.append(token.string)
        after_value = token.type in VALUES or token.string in ("]", "}")
    return ast.literal_eval(" ".join(parts).strip())


def list_items(cell: Any) -> list[Any]:
    """Return the items of a list, or the parts of a text between spaces."""
    if isinstance(cell, str):
        return [item for item in SPACES.split(cell) if item]
    if isinstance(cell, (list, tuple, np.ndarray)):
        return list(cell)
    raise ValueError(f"it has {cell!r}, expected a list")


def one_per_word(words: Sequence[str], cell: Any, what: str, empty: Sequence[str] = ("", "_")) -> list[str]:
    """Return one text per word from a cell; raise ValueError for more, fewer, or empty ones."""
    found = list_items(cell)
    if len(found) != len(words):
        raise ValueError(f"it has {len(words)} words and {len(found)} {what}")
    for number, item in enumerate(found, 1):
        if item is None or item != item or str(item) in empty:
            raise ValueError(f"word {number} has no {what.removesuffix('s')}")
    return [str(item) for item in found]
