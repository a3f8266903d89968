"""Filters and checks of stored columns of texts and labels."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.config.values import as_text, kept_by
from headspec.data.sources import cells
from headspec.errors import DataError, listing, nearest, shown

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: what programs write for missing values
MISSING = {"NaN", "nan", "NaT", "None", "NULL", "null", "NA", "N/A", "n/a", "#N/A", "<NA>"}


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
    """Return the rows of `frame` that `task.filter` keeps; raise DataError if it keeps none."""
    stored = _filtered_by(frame, task, key, where)
    kept = [stored[column].isin(kept_by(value)) for column, value in task.filter.items()]
    rows = frame[np.logical_and.reduce(kept)] if kept else frame
    if rows.empty:
        raise DataError(f"{key}.filter: it keeps none of {len(frame)} rows of {where}")
    return rows


def check_filter(frames: Mapping[str, pd.DataFrame], task: Task, key: str) -> None:
    """Raise DataError if a value of `task.filter` keeps no row of all `frames`, which are splits by name."""
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
    """Raise DataError if a value of `task.unlabelled` is in no row of all `frames`, splits by name."""
    for value in task.unlabelled:
        if not any(unlabelled(frame, names, [value]).any() for frame in frames.values()):
            rows = sum(map(len, frames.values()))
            raise DataError(
                f"{key}.unlabelled: none of {rows} rows of {listing(frames)} has {value!r} in "
                f"{listing(names)}; expected values that some rows have"
            )


def _as_label(cell: Any) -> str | None:
    """Return a cell as text, or None for a list or a mapping."""
    if isinstance(cell, (list, tuple, dict, np.ndarray)):
        return None
    return "" if pd.isna(cell) else as_text(cell)


def class_notes(key: str, names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each sign that some names of classes are not meant as classes of their own."""
    if missing := [name for name in names if name in MISSING]:
        yield (
            f"{key}.label: {listing(missing)} is taken as a class; if it says that a label is missing, name "
            f"it in {key}.unlabelled"
        )
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(" ".join(unicodedata.normalize("NFKC", name).casefold().split()), []).append(name)
    groups = [group for group in alike.values() if len(group) > 1]
    if several := [" and ".join(map(_visibly(group), group)) for group in groups]:
        yield (
            f"{key}.label: {listing(several, 3)} are classes of their own; if they are the same, say so in "
            f"{key}.labels"
        )


def _visibly(names: Sequence[str]) -> Callable[[str], str]:
    """Return a function that shows names so that they differ, also where only their composition does."""
    return ascii if len({unicodedata.normalize("NFC", name) for name in names}) < len(names) else repr


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
    label = _as_label(stored[row]) or '""'
    return (
        f"{key}.label: {missing.sum()} of {len(missing)} rows of {where} have no label; the first is row "
        f"{row + 1} ({task.label} is '{stored[row]}'). To leave such rows out, set {key}.unlabelled to "
        f"{label}."
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
