"""Cells with several labels, as people and programs write them: lists, mappings and joined texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.data import joined_labels
from headspec.data.sources import columns
from headspec.data.sources.columns import LISTS, NESTED
from headspec.errors import DataError, shown
from headspec.tasks.kinds.texts.label_sets import split_names
from headspec.text_values import as_text

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys

#: values of 0/1 columns as written by programs and databases, in lower case
FLAGS = dict.fromkeys(("0", "false", "f", "no", "n"), False) | dict.fromkeys(
    ("1", "true", "t", "yes", "y"), True
)
#: default separator between the labels of a cell
SEPARATOR = ","
#: brackets around unquoted names, if all cells have them
PAIRS = ("()", "{}")


def read(frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.Series:
    """Return the labels in each cell of a column: lists, lists written as text, or texts with a separator.

    Raises DataError if a cell is missing or invalid, or it is unclear whether a text is several labels.
    """
    stored = frame[str(task.label)]
    missing = stored.map(is_missing)
    if missing.any():
        none = " For texts with none of the labels, write []."
        raise DataError(columns.unlabelled_message(missing, stored, task, key, where) + none)
    separator = getattr(task, "separator", None)  # a plugin's kind may lack the key
    found = _without_pairs(_each(stored, _stated, stored, key, where))
    parts = {} if separator else _joined(found, task, key, where)
    sets = _each(found, lambda cell: _names(cell, _items(cell, separator, parts)), stored, key, where)
    _check_indicators(sets, stored, key, where)
    return sets


def _each(cells: pd.Series, function: Any, stored: pd.Series, key: str, where: str) -> pd.Series:
    """Apply a function to cells; turn a ValueError into a DataError with the row and its `stored` cell."""
    values = []
    for i, cell in enumerate(cells):
        try:
            values.append(function(cell))
        except ValueError as error:
            row: Any = cells.index[i]
            place = f"row {row + 1} of {where}"
            raise DataError(f"{key}.label: {place} has {shown(stored[row])}, {error}") from None
    return pd.Series(values, index=cells.index, dtype=object)


def _stated(cell: Any) -> Any:
    """Return the list of names that a cell is, or represents as text; return other cells unchanged.

    Of a mapping, these are the names whose value is true. Raises ValueError with a clause for other values.
    """
    value = columns.nested(cell)
    if value is None:
        return _unquoted(cell) if isinstance(cell, str) else cell
    items = [*value.items()] if isinstance(value, dict) else [*value]
    mapped = [isinstance(item, tuple) and len(item) == 2 for item in items]
    if isinstance(value, dict) or (items and all(mapped)):  # Arrow's maps are lists of pairs
        return [name for name, flag in items if _flag(name, flag)]
    if wrong := [item for item in items if isinstance(item, float | np.floating) and item % 1]:
        raise ValueError(f"with the fraction {wrong[0]}, expected names")
    return items


def _flag(name: Any, value: Any) -> bool:
    """Return whether a mapping's value for a name is true; ValueError if it is neither true nor false."""
    if value is None or value != value:
        return False
    if (flag := FLAGS.get(as_text(value).lower())) is None:
        raise ValueError(f"with {shown(value)} for {shown(name)}, expected 0 or 1")
    return flag


def _unquoted(text: str) -> Any:
    """Return a text or a list of texts without surrounding quotes."""
    if text.strip()[:1] not in ("'", '"'):
        return text
    try:
        value = columns.literal(text.strip())
    except ValueError:
        return text
    names = [value] if isinstance(value, str) else value
    named = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name for name in names)
    return value if named and all(any(map(str.isalnum, name)) for name in names) else text


def _without_pairs(cells: pd.Series) -> pd.Series:
    """Return cells without their brackets, if all cells that are texts have them."""
    texts = cells[cells.map(lambda cell: isinstance(cell, str))].map(str.strip)
    if not any(len(texts) and (texts.str[:1] + texts.str[-1:] == pair).all() for pair in PAIRS):
        return cells
    return cells.where(~cells.index.isin(texts.index), texts.str[1:-1].reindex(cells.index))


def _joined(cells: pd.Series, task: TaskKeys, key: str, where: str) -> dict[str, list[str]]:
    """Return `split_names` of the names in texts; DataError if it is unclear which are several labels."""
    texts = cells[cells.map(lambda cell: isinstance(cell, str))]
    lists = cells.drop(texts.index).map(lambda cell: list(cell) if isinstance(cell, LISTS) else [cell])
    try:
        whole = {as_text(name) for names in (*lists, task.labels or ()) for name in names}
        return split_names({name for cell in texts.unique() for name in _items(cell)}, whole)
    except joined_labels.Unclear as error:
        name, joint = error.name, error.joint
    row: Any = texts.map(lambda cell: name in _items(cell)).idxmax()
    raise DataError(
        f"{key}.label: row {row + 1} of {where} has {shown(name)}, which looks like several labels with "
        f"'{joint}' between them, but not all of them are labels elsewhere; to split such cells, set "
        f"{key}.separator to '{joint}', to keep them whole, to '{SEPARATOR}'"
    )


def is_missing(cell: Any) -> bool:
    """Return whether a cell is missing, with neither a label nor an empty list."""
    return not isinstance(cell, NESTED) and (pd.isna(cell) or not str(cell).strip())


def _items(
    cell: Any, separator: str | None = None, parts: Mapping[str, list[str]] | None = None
) -> list[Any]:
    """Return the items of a list, or the names in a text, some of which have `parts`."""
    if isinstance(cell, LISTS):
        return list(cell)
    text, separator = str(cell).strip(), separator or SEPARATOR
    between = None if separator.isspace() else separator
    items = text.removesuffix(separator.rstrip()).split(between)
    return [part for name in map(as_text, items) for part in (parts or {}).get(name, [name])]


def _names(cell: Any, items: list[Any]) -> list[str]:
    """Return the `items` of a cell as labels; raise ValueError with a clause if they are not names."""
    if any(isinstance(item, (*NESTED, bytes)) for item in items):
        raise ValueError("expected a list of names")
    if any(map(is_missing, items)):
        raise ValueError("of which a label is empty")
    if isinstance(cell, str) and cell.lstrip(' "').startswith("["):
        raise ValueError("which is not a list")
    names = list(map(as_text, items))
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        hint = "; for 0 and 1, name a column for each label" if {*names} <= {*FLAGS} else ""
        raise ValueError(f"with '{repeated[0]}' twice, expected each label once{hint}")
    return names


def _check_indicators(sets: pd.Series, stored: pd.Series, key: str, where: str) -> None:
    """Raise DataError if all cells are lists of zeros and ones, of the same length of at least two."""
    n = sets.map(len)
    if n.iloc[0] > 1 and n.nunique() == 1 and sets.map(lambda names: {*names} <= {*FLAGS}).all():
        raise DataError(
            f"{key}.label: row {sets.index[0] + 1} of {where} has {shown(stored.iloc[0])}, and all rows have "
            f"{n.iloc[0]} times 0 or 1, expected names; for 0 and 1, name a column for each label"
        )
