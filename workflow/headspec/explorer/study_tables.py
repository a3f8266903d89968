"""Tables of a study that the explorer shows, and their values as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from headspec.head_arrays import Layers

Columns = dict[str, Any]
#: significant digits of statistics, and of values for each head
DIGITS, HEAD_DIGITS = 6, 4


def json_value(value: Any, digits: int = DIGITS) -> Any:
    """Return `value` for JSON: null if it is missing or infinite; numbers of at most `digits` digits."""
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


def json_list(values: Iterable[Any], digits: int = DIGITS) -> list[Any]:
    """Return `values` as a list for JSON."""
    return [json_value(value, digits) for value in values]


def json_columns(frame: pd.DataFrame, names: Iterable[str]) -> Columns:
    """Return those of the named columns that a table has; text as distinct values and their indices."""
    return {name: _column(frame[name]) for name in names if name in frame}


def _column(column: pd.Series) -> Any:
    """Return numbers and flags as a list; text as distinct values and each row's index into them, or null."""
    if not pd.api.types.is_string_dtype(column.dropna()):
        return json_list(column.tolist())
    places, values = pd.factorize(column)
    return {"values": json_list(values), "places": [int(place) if place >= 0 else None for place in places]}


@dataclass(frozen=True)
class Run:
    """A run, by its path `runs/{model}/{mixture}/{method}/seed{seed}`, and its tables by name."""

    model: str
    mixture: str
    method: str
    seed: int
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyTables:
    """Tables of a study and of its runs, and the footer of each by path."""

    shown: tuple[str, ...]  #: names of the study's tables that some view shows
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    footers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(self, name: str) -> pd.DataFrame | None:
        """Return a table of the study, None if it is missing; raise KeyError if no view names it."""
        if name not in self.shown:
            raise KeyError(f"'{name}' is not a table of a view; expected it in VIEWS, in views.py")
        return self.tables.get(name)

    @property
    def name(self) -> str:
        """Name of the study."""
        return next(str(footer["study"]) for footer in self.footers.values())

    @property
    def attention(self) -> dict[str, Layers]:
        """Number of layers of each kind of attention, for models with several."""
        return {
            model: layers
            for footer in self.footers.values()
            for model, layers in footer.get("attention", {}).items()
        }
