"""Cells of a table as lists: stored lists, lists written as text, or text split at spaces."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.errors import shown

#: separates the items of a text; other kinds of spaces belong to them
SPACES = re.compile(r"[ \t\r\n]+")
#: Python tokens that are values
VALUES = {tokenize.STRING, tokenize.NUMBER, tokenize.NAME}
#: names before the values that numpy writes
NUMPY = {"array", "np", "numpy"}


def parse_lists(column: pd.Series) -> pd.Series:
    """Parse a text column of lists in Python, JSON or numpy; ValueError has the row of a broken list."""
    present = column.dropna()
    texts = [cell.strip() if isinstance(cell, str) else "" for cell in present]
    if not texts or not all(text.startswith("[") and text.endswith("]") for text in texts):
        return column
    written = {}
    for row, cell in present.items():
        try:
            written[row] = literal(cell)
        except ValueError:
            raise ValueError(f"row {int(str(row)) + 1} has {shown(cell)}, which is no list") from None
    return pd.Series(written, dtype=object, name=column.name).reindex(column.index)


def literal(text: str) -> Any:
    """Return the value of a text as JSON, Python, numpy or pandas write it; ValueError for other texts."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        tree = ast.parse(" ".join(_with_commas(text)).strip(), mode="eval")
        return ast.literal_eval(_Values().visit(tree))
    except (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError):
        raise ValueError(f"{shown(text)} is no value of JSON, Python or numpy") from None


def _with_commas(text: str) -> Iterator[str]:
    """Yield the Python tokens of a text, and the commas that numpy leaves out; ValueError for ``...``."""
    after_value = False
    for token in tokenize.generate_tokens(io.StringIO(text.replace("\n", " ")).readline):
        if token.string == "...":
            raise ValueError("numpy left out values")
        # Python would join texts side by side, and subtract numbers
        if after_value and (token.type in VALUES or token.string in ("[", "{", "-")):
            yield ","
        yield token.string
        after_value = token.type in VALUES or token.string in ("]", "}", ")")


class _Values(ast.NodeTransformer):
    """Puts values in place of what numpy writes around them: ``array([3])``, ``np.int64(3)``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if not isinstance(called, ast.Name) or called.id not in NUMPY or len(node.args) != 1:
            return node
        return self.visit(node.args[0])


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
