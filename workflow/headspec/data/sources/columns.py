"""Filters and checks for stored columns of texts and labels, and cells that hold lists."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.errors import DataError, listing, nearest, shown
from headspec.text_values import as_text, kept_by

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


#: separator of the items of a text; other kinds of spaces are part of items
SPACES = re.compile(r"[ \t\r\n]+")
WHOLE = re.compile(r"[+-]?\d+")
#: Python tokens that are values
VALUES = {tokenize.STRING, tokenize.NUMBER, tokenize.NAME}
#: names before values in the notation of numpy and Python
NAMED = {"array", "np", "numpy", "set", "frozenset", "tuple", "list", "dict", "Counter", "OrderedDict"}
#: types of cells with several items
LISTS = (list, tuple, np.ndarray)
NESTED = (*LISTS, set, frozenset, dict)


def parse_lists(column: pd.Series) -> pd.Series:
    """Return a text column of lists in Python, JSON or numpy notation, parsed; other columns as they are.

    Raises ValueError, naming the row, for a broken list.
    """
    present = column.dropna()
    texts = [cell.strip() if isinstance(cell, str) else "" for cell in present]
    if not texts or not all(text.startswith("[") and text.endswith("]") for text in texts):
        tuples = present.map(lambda cell: nested(cell) if isinstance(cell, str) else None)
        whole = len(tuples) and tuples.map(lambda value: isinstance(value, LISTS)).all()
        return tuples.reindex(column.index) if whole else column
    written = {}
    for row, cell in present.items():
        try:
            written[row] = literal(cell)
        except ValueError:
            raise ValueError(f"row {int(str(row)) + 1} has {shown(cell)}, which is not a list") from None
    return pd.Series(written, dtype=object, name=column.name).reindex(column.index)


def literal(text: str) -> Any:
    """Return the value of a text in JSON, Python, numpy or pandas notation; raise ValueError for others."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        tree = ast.parse(" ".join(_with_commas(text)).strip(), mode="eval")
        return ast.literal_eval(_Values().visit(tree))
    except (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError):
        raise ValueError(f"{shown(text)} is not a value of JSON, Python or numpy") from None


def _with_commas(text: str) -> Iterator[str]:
    """Yield the Python tokens of a text, with the commas that numpy omits; raise ValueError for ``...``."""
    after_value = False
    for token in tokenize.generate_tokens(io.StringIO(text.replace("\n", " ")).readline):
        if token.string == "...":
            raise ValueError("numpy left out values")
        # without commas, Python would join adjacent texts, and subtract numbers
        if after_value and (token.type in VALUES or token.string in ("[", "{", "-")):
            yield ","
        yield token.string
        after_value = token.type in VALUES or token.string in ("]", "}", ")")


class _Values(ast.NodeTransformer):
    """Unwraps values such as ``array([3])``, ``np.int64(3)`` and ``set()``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if not isinstance(called, ast.Name) or called.id not in NAMED or len(node.args) > 1:
            return node
        value: ast.AST = self.visit(node.args[0]) if node.args else ast.List([])
        return value


def nested(cell: Any) -> Any:
    """Return the list, set or mapping that a cell is, or represents as text; None for other cells."""
    if isinstance(cell, str) and cell.strip()[-1:] in ("]", ")", "}"):
        try:
            cell = literal(cell.strip())
        except ValueError:
            return None
    return cell if isinstance(cell, NESTED) else None


def list_items(cell: Any) -> list[Any]:
    """Return the items of a list, or of a text separated by white space; raise ValueError for others."""
    if isinstance(cell, str):
        return [item for item in SPACES.split(cell) if item]
    if isinstance(cell, LISTS):
        return list(cell)
    raise ValueError(f"it has {cell!r}, expected a list")


def whole(value: Any) -> int:
    """Return a whole number, which may be written as 29.0 or "29"; raise ValueError for others."""
    if isinstance(value, bool) or not WHOLE.fullmatch(text := as_text(value)):
        raise ValueError(f"{shown(value)} is not a whole number")
    return int(text)


def one_per_word(words: Sequence[str], cell: Any, what: str, empty: Sequence[str] = ("", "_")) -> list[str]:
    """Return one text per word from a cell; raise ValueError for another number, or one of `empty`."""
    items = list_items(cell)
    if len(items) != len(words):
        raise ValueError(f"it has {len(words)} words and {len(items)} {what}")
    for number, item in enumerate(items, 1):
        if item is None or item != item or str(item) in empty:
            raise ValueError(f"word {number} has no {what.removesuffix('s')}")
    return [str(item) for item in items]


def to_text(column: pd.Series) -> pd.Series:
    """Return a column with `as_text` of every value; empty values become missing."""
    present = column.dropna()
    text = present.map({value: as_text(value) for value in present.unique()})
    return text[text != ""].astype(object).reindex(column.index)


def matching(column: str, present: Sequence[str]) -> str | None:
    """Return `column` if present, or the only name that differs just in what `_bare` drops; else None."""
    alike = [name for name in present if _bare(name) == _bare(column)]
    return column if column in present else alike[0] if len(alike) == 1 else None


def _bare(name: str) -> str:
    """Return a name without invisible characters and surrounding white space."""
    composed = unicodedata.normalize("NFC", name)
    return "".join(character for character in composed if unicodedata.category(character) != "Cf").strip()


def numbered(columns: Sequence[str], where: str) -> str:
    """Return advice for a file without column names, whose columns are numbered from 1; else empty."""
    if not columns or list(columns) != [str(place) for place in range(1, len(columns) + 1)]:
        return ""
    return f" Its columns have no names and are numbered: set {where} to a number, such as '{columns[0]}'."


def check_plain(stored: pd.Series, key: str, where: str, hint: str = "") -> None:
    """Raise DataError if a value of a column is bytes, or has several items; `hint` says what to do."""
    if stored.dtype != object:
        return
    wrong = stored.map(lambda value: isinstance(value, (bytes, *NESTED)))
    if wrong.any():
        row: Any = wrong.idxmax()
        cell = stored[row].tolist() if isinstance(stored[row], np.ndarray) else stored[row]
        raise DataError(
            f"{key}: row {row + 1} of {where} has {shown(cell)} in column '{stored.name}', "
            f"expected text or a number{hint}"
        )


def with_nested(stored: pd.Series) -> pd.Series:
    """Return a column with its values parsed if all cells are `nested`, so that they are refused."""
    values = stored.dropna().map(nested)
    return values.reindex(stored.index) if len(values) and values.notna().all() else stored


def filtered(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """Return the rows of `frame` that `task.filter` keeps; raise DataError if it keeps none."""
    stored = _filtered_by(frame, task, key, where)
    kept = [stored[column].isin(kept_by(value)) for column, value in task.filter.items()]
    rows = frame[np.logical_and.reduce(kept)] if kept else frame
    if rows.empty:
        raise DataError(f"{key}.filter: it keeps none of {len(frame)} rows of {where}")
    return rows


def check_filter(frames: Mapping[str, pd.DataFrame], task: Task, key: str) -> None:
    """Raise DataError if a value of `task.filter` keeps no row in any of `frames`, splits by name."""
    if not task.filter:
        return
    stored = pd.concat([_filtered_by(frame, task, key, where) for where, frame in frames.items()])
    kept = {column: stored[column].isin(kept_by(value)) for column, value in task.filter.items()}
    problems = []
    for column, value in task.filter.items():
        others = [mask for other, mask in kept.items() if other != column]
        left = stored[np.logical_and.reduce(others)] if others else stored
        present = sorted(left[column].dropna().unique())
        also = " that the other filters keep" if others else ""
        problems += [
            f"{key}.filter.{column}: {wanted!r} keeps none of {len(left)} rows of {listing(frames)}{also}, "
            f"where {column} is {listing(present)}.{nearest(wanted, present)}"
            for wanted in kept_by(value)
            if wanted not in present
        ]
    if problems:
        raise DataError("\n".join(problems))


def _filtered_by(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """Return the columns of `task.filter` as text."""
    for column in task.filter:
        check_plain(frame[column], f"{key}.filter.{column}", where)
    return pd.DataFrame({column: to_text(frame[column]) for column in task.filter}, index=frame.index)


def unlabelled(frame: pd.DataFrame, names: Sequence[str], values: Sequence[str]) -> pd.Series:
    """Return which rows have one of `values` in a column of the label; an empty cell is ``""``."""
    wanted = {*map(as_text, values)}
    masks = [frame[name].map(_as_label).isin(wanted) for name in names]
    return pd.Series(np.logical_or.reduce(masks), index=frame.index)


def check_unlabelled(frames: Mapping[str, pd.DataFrame], names: Sequence[str], task: Task, key: str) -> None:
    """Raise DataError if a value of `task.unlabelled` is in no row of any of `frames`, splits by name."""
    for value in task.unlabelled:
        if not any(unlabelled(frame, names, [value]).any() for frame in frames.values()):
            rows = sum(map(len, frames.values()))
            raise DataError(
                f"{key}.unlabelled: none of {rows} rows of {listing(frames)} has {value!r} in "
                f"{listing(names)}; expected values that some rows have"
            )


def _as_label(cell: Any) -> str | None:
    """Return a cell as text, or None for a list or a mapping."""
    if isinstance(cell, NESTED):
        return None
    return "" if pd.isna(cell) else as_text(cell)


def text_column(frame: pd.DataFrame, column: str, key: str, where: str) -> pd.Series:
    """Return a column of texts; missing texts become empty.

    Raises DataError if it holds other values, or only empty texts.
    """
    stored = frame[column]
    if stored.notna().any() and pd.api.types.infer_dtype(stored, skipna=True) != "string":
        raise DataError(f"{key}: column '{column}' of {where} holds {stored.dtype} values, not text")
    filled = stored.astype("str").fillna("")
    if (filled.str.strip() == "").all():
        raise DataError(f"{key}: every text in column '{column}' of {where} is empty")
    return filled


def unlabelled_message(missing: pd.Series, stored: pd.Series, task: Task, key: str, where: str) -> str:
    """Return the message for rows whose label is `missing`."""
    row: Any = missing.idxmax()
    label = _as_label(stored[row]) or '""'
    return (
        f"{key}.label: {missing.sum()} of {len(missing)} rows of {where} have no label; the first is row "
        f"{row + 1} ({task.label} is '{stored[row]}'). To leave such rows out, set {key}.unlabelled to "
        f"{label}."
    )


def check_labels(labels: pd.Series, valid: list[str], key: str, where: str, what: str) -> None:
    """Raise DataError if a label is not one of `valid`, which the message calls `what`."""
    invalid = ~labels.isin(valid)
    if invalid.any():
        row: Any = invalid.idxmax()
        raise DataError(
            f"{key}: row {row + 1} of {where} has label '{labels[row]}'; {what} are "
            f"{listing(valid, 10)}.{nearest(labels[row], valid)}"
        )
