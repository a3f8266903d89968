"""Filtering and checking stored columns: texts, class names, scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec import characters
from headspec.config.as_text import as_text, kept_by
from headspec.data.sources import cells
from headspec.errors import DataError, listing, nearest, shown
from headspec.tasks.classes import Classes
from headspec.tasks.continuations import pair_types
from headspec.tasks.translation import classes as translation
from headspec.tasks.words import reading
from headspec.tasks.words.word_types import TYPES

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: target texts that tell the script of a translation
SAMPLE = 1000


#: type of task: what its labels are at least; one label is enough for others
LEAST = {
    "classification": "two classes",
    "regression": "two scores",
    translation.NAME: "two target texts",
    "tags": "two tags",
}


def plainly(column: pd.Series) -> pd.Series:
    """`column` with `as_text` applied to every value; empty values become missing."""
    present = column.dropna()
    text = present.map({value: as_text(value) for value in present.unique()})
    return text[text != ""].astype(object).reindex(column.index)


def check_plain(stored: pd.Series, key: str, where: str) -> None:
    """DataError if a value of a column is neither text nor a number, but bytes, a list or a mapping."""
    if stored.dtype != object:
        return
    nested = stored.map(lambda value: isinstance(value, (bytes, list, tuple, dict, np.ndarray)))
    if nested.any():
        row: Any = nested.idxmax()
        raise DataError(
            f"{key}: row {row + 1} of {where} has {shown(stored[row])} in column '{stored.name}', "
            "expected text or a number"
        )


def unwrapped(stored: pd.Series) -> pd.Series:
    """A column of text that is all lists, as these lists, which `check_plain` refuses."""
    try:
        return cells.lists(stored)
    except ValueError:
        return stored  # names in brackets


def filtered(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """The rows of `frame` that `task.filter` keeps."""
    for column, value in task.filter.items():
        values = kept_by(value)
        check_plain(frame[column], f"{key}.filter.{column}", where)
        stored = plainly(frame[column])
        kept = frame[stored.isin(values)]
        if kept.empty:
            present, first = sorted(stored.dropna().unique()), values[0] if values else ""
            raise DataError(
                f"{key}.filter.{column}: {' or '.join(map(repr, values))} keeps none of {len(frame)} rows "
                f"of {where}, where {column} is {listing(present)}.{nearest(first, present)}"
            )
        frame = kept
    return frame


def texts(frame: pd.DataFrame, column: str, key: str, where: str) -> pd.Series:
    """A column of texts; missing texts become empty."""
    stored = frame[column]
    if stored.notna().any() and pd.api.types.infer_dtype(stored, skipna=True) != "string":
        raise DataError(f"{key}: column '{column}' of {where} holds {stored.dtype} values, not text")
    filled = stored.astype("str").fillna("")
    if (filled.str.strip() == "").all():
        raise DataError(f"{key}: every text in column '{column}' of {where} is empty")
    return filled


def class_names(stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
    """The class of every row: the stored label, mapped by `task.labels` if it is set."""
    labels = plainly(stored)
    mapping = {as_text(label): name for label, name in task.labels.items()} if task.labels else None
    unlabelled = labels.isna() if mapping and "-1" in mapping else labels.isna() | (labels == "-1")
    if unlabelled.any():
        raise DataError(_unlabelled(unlabelled, stored, task, key, where))
    if mapping is None:
        return labels
    check_labels(labels, list(mapping), f"{key}.labels", where, "the labels")
    return labels.map(mapping)


def scores(stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
    """The score of every row, as the shortest text that gives the same float."""
    labels = plainly(stored)
    if labels.isna().any():
        raise DataError(_unlabelled(labels.isna(), stored, task, key, where))
    numbers = pd.to_numeric(labels, errors="coerce").astype(float)
    wrong = pd.Series(~np.isfinite(numbers), index=stored.index)
    if wrong.any():
        row: Any = wrong.idxmax()
        raise DataError(
            f"{key}.label: row {row + 1} of {where} has '{stored[row]}', but a regression task needs finite "
            f"numbers. For classes, set {key}.type to classification."
        )
    return pd.Series([repr(score) for score in numbers.tolist()], index=stored.index, dtype=object)


def _unlabelled(missing: pd.Series, stored: pd.Series, task: Task, key: str, where: str) -> str:
    row: Any = missing.idxmax()
    return (
        f"{key}.label: {missing.sum()} of {len(missing)} rows of {where} have no label; the first is row "
        f"{row + 1} ({task.label} is '{stored[row]}'). Select the labelled rows with {key}.filter."
    )


def check_labels(labels: pd.Series, valid: list[str], key: str, where: str, what: str) -> None:
    """DataError if a label is not a `valid` one; the message calls the valid ones `what`."""
    invalid = ~labels.isin(valid)
    if invalid.any():
        row: Any = invalid.idxmax()
        raise DataError(
            f"{key}: row {row + 1} of {where} has label '{labels[row]}'; {what} are "
            f"{listing(valid, 10)}.{nearest(labels[row], valid)}"
        )


def check_varied(labels: pd.Series, task: Task, key: str, where: str) -> None:
    """DataError if all labels are the same, or no word has one."""
    names = reading.label_names(labels) if task.type in TYPES else labels.unique().tolist()
    if len(names) > 1 or (names and task.type not in LEAST):
        return
    content = f"only {names[0]}" if names else "nothing"
    raise DataError(
        f"{key}.label: {where} has {content} in {len(labels)} rows, but a {task.type} task needs at least "
        f"{LEAST.get(task.type, 'one label')}"
    )


def classes(task: Task, labels: pd.Series) -> Classes:
    """Class names in order of their index: that of `task.labels`, else sorted; `Classes` of other types."""
    if task.type in TYPES:
        return {"type": task.type, "labels": reading.label_names(labels)}
    if task.type == translation.NAME:
        language = characters.unspaced(labels.head(SAMPLE))
        more = {translation.UNSPACED: language} if language else {}
        return {"type": task.type, **{key: getattr(task, key) for key in translation.KEYS}} | more
    if task.type == "regression":
        return None
    if task.type in pair_types.TYPES:
        return []
    return list(dict.fromkeys(task.labels.values())) if task.labels else sorted(labels.unique())
