"""Numbers of tables as JSON: columns, short and without NaN."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

Columns = dict[str, Any]
#: significant digits of statistics, and of what there is one of for each head
DIGITS, HEAD_DIGITS = 6, 4


def plain(value: Any, digits: int = DIGITS) -> Any:
    """`value` as JSON has it: null for missing numbers, and at most `digits` significant digits."""
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and not np.isfinite(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        rounded = float(f"{value:.{digits}g}")
        return int(rounded) if rounded.is_integer() else rounded
    return str(value)


def listed(values: Iterable[Any], digits: int = DIGITS) -> list[Any]:
    """`values` as a list for JSON."""
    return [plain(value, digits) for value in values]


def columns(frame: pd.DataFrame, names: Iterable[str]) -> Columns:
    """Return the named columns that a table has; text as its distinct values and their places."""
    return {name: _column(frame[name]) for name in names if name in frame}


def _column(column: pd.Series) -> Any:
    """Numbers and flags as a list; text as its distinct values, and the place of each row's, or null."""
    if not pd.api.types.is_string_dtype(column.dropna()):
        return listed(column.tolist())
    places, values = pd.factorize(column)
    return {"values": listed(values), "places": [int(place) if place >= 0 else None for place in places]}
