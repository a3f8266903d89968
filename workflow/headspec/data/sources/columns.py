"""Filters and checks of stored columns of texts and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.config.as_text import as_text, kept_by
from headspec.data.sources import cells
from headspec.errors import DataError, listing, nearest, shown

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


def to_text(column: pd.Series) -> pd.Series:
    """Apply `as_text` to every value; empty values become missing."""
    present = column.dropna()
    text = present.map({value: as_text(value) for value in present.unique()})
    return text[text != ""].astype(object).reindex(column.index)


def check_plain(stored: pd.Series, key: str, where: str) -> None:
    """Raise DataError if a value of a column is bytes, a list or a mapping."""
    if stored.dtype != object:
        return
    nested = stored.map(lambda value: isinstance(value, (bytes, list, tuple, dict, np.ndarray)))
    if nested.any():
        row: Any = nested.idxmax()
        raise DataError(
            f"{key}: row {row + 1} of {where} has {shown(stored[row])} in column '{stored.name}', "
            "expected text or a number"
        )


def with_lists(stored: pd.Series) -> pd.Series:
    """Apply `cells.parse_lists`, so that `check_plain` refuses lists; names in brackets stay text."""
    try:
        return cells.parse_lists(stored)
    except ValueError:
        return stored


def filtered(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """Return the rows of `frame` that `task.filter` keeps."""
    for column, value in task.filter.items():
        values = kept_by(value)
        check_plain(frame[column], f"{key}.filter.{column}", where)
        stored = to_text(frame[column])
        kept = frame[stored.isin(values)]
        if kept.empty:
            present, first = sorted(stored.dropna().unique()), values[0] if values else ""
            raise DataError(
                f"{key}.filter.{column}: {' or '.join(map(repr, values))} keeps none of {len(frame)} rows "
                f"of {where}, where {column} is {listing(present)}.{nearest(first, present)}"
            )
        frame = kept
    return frame


def text_column(frame: pd.DataFrame, column: str, key: str, where: str) -> pd.Series:
    """Return a column of texts; missing texts become empty."""
    stored = frame[column]
    if stored.notna().any() and pd.api.types.infer_dtype(stored, skipna=True) != "string":
        raise DataError(f"{key}: column '{column}' of {where} holds {stored.dtype} values, not text")
    filled = stored.astype("str").fillna("")
    if (filled.str.strip() == "").all():
        raise DataError(f"{key}: every text in column '{column}' of {where} is empty")
    return filled


def unlabelled_message(missing: pd.Series, stored: pd.Series, task: Task, key: str, where: str) -> str:
    """Return the message about rows whose label is `missing`."""
    row: Any = missing.idxmax()
    return (
        f"{key}.label: {missing.sum()} of {len(missing)} rows of {where} have no label; the first is row "
        f"{row + 1} ({task.label} is '{stored[row]}'). Select the labelled rows with {key}.filter."
    )


def check_labels(labels: pd.Series, valid: list[str], key: str, where: str, what: str) -> None:
    """Raise DataError if a label is not `valid`; the message calls the valid ones `what`."""
    invalid = ~labels.isin(valid)
    if invalid.any():
        row: Any = invalid.idxmax()
        raise DataError(
            f"{key}: row {row + 1} of {where} has label '{labels[row]}'; {what} are "
            f"{listing(valid, 10)}.{nearest(labels[row], valid)}"
        )
