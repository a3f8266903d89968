"""From stored columns to checked ones: filter, texts, class names, scores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.errors import DataError, listing, nearest

if TYPE_CHECKING:
    from headspec.sections import Task


def _plain(value: object) -> str:
    """A stored value as text, the same for 1, 1.0 and "1", and for true and True."""
    text = re.sub(r"^([+-]?\d+)\.0+$", r"\1", str(value).strip())
    return text.lower() if text in ("True", "False") else text


def plainly(column: pd.Series) -> pd.Series:
    """`column` with every value through `_plain`, missing and empty ones missing."""
    present = column.dropna()
    text = present.map({value: _plain(value) for value in present.unique()})
    return text[text != ""].astype(object).reindex(column.index)


def wanted(value: object) -> list[str]:
    """What a value of a filter keeps, a list or one, as `plainly` writes it."""
    return [_plain(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


def filtered(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """The rows of `frame` that `task.filter` keeps."""
    for column, value in task.filter.items():
        values = wanted(value)
        stored = plainly(frame[column])
        kept = frame[stored.isin(values)]
        if kept.empty:
            known = sorted(stored.dropna().unique())
            shown = listing(known[:10]) + (", ..." if len(known) > 10 else "")
            raise DataError(
                f"{key}.filter.{column}: {' or '.join(map(repr, values))} keeps none of {len(frame)} rows "
                f"of {where}, where {column} is {shown}.{nearest(values[0] if values else '', known)}"
            )
        frame = kept
    return frame


def texts(frame: pd.DataFrame, column: str, key: str, where: str) -> pd.Series:
    """A column of texts, missing ones empty."""
    stored = frame[column]
    if stored.notna().any() and pd.api.types.infer_dtype(stored, skipna=True) != "string":
        raise DataError(f"{key}: column '{column}' of {where} holds {stored.dtype} values, not text")
    filled = stored.astype("str").fillna("")
    if (filled.str.strip() == "").all():
        raise DataError(f"{key}: every text in column '{column}' of {where} is empty")
    return filled


def class_names(stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
    """The class of every row: the stored label through `task.labels`, if given."""
    labels = plainly(stored)
    mapping = {_plain(label): name for label, name in task.labels.items()} if task.labels else None
    unlabelled = labels.isna() if mapping and "-1" in mapping else labels.isna() | (labels == "-1")
    if unlabelled.any():
        raise DataError(_unlabelled(unlabelled, stored, task, key, where))
    if mapping is None:
        return labels
    check_known(labels, list(mapping), f"{key}.labels", where, "the labels")
    return labels.map(mapping)


def scores(stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
    """The score of every row, as the shortest text that reads back as the same float."""
    labels = plainly(stored)
    if labels.isna().any():
        raise DataError(_unlabelled(labels.isna(), stored, task, key, where))
    numbers = pd.to_numeric(labels, errors="coerce").astype(float)
    wrong = pd.Series(~np.isfinite(numbers), index=stored.index)
    if wrong.any():
        row: Any = wrong.idxmax()
        raise DataError(
            f"{key}.label: row {row + 1} of {where} has '{stored[row]}'; a regression task needs finite "
            f"numbers. For classes, set {key}.type to classification."
        )
    return pd.Series([repr(score) for score in numbers.tolist()], index=stored.index, dtype=object)


def _unlabelled(missing: pd.Series, stored: pd.Series, task: Task, key: str, where: str) -> str:
    row: Any = missing.idxmax()
    return (
        f"{key}.label: {missing.sum()} of {len(missing)} rows of {where} have no label, the first is row "
        f"{row + 1} ({task.label} is '{stored[row]}'). Keep the labelled rows with {key}.filter."
    )


def check_known(labels: pd.Series, known: list[str], key: str, where: str, what: str) -> None:
    """Raise if a label is none of the `known` ones."""
    outside = ~labels.isin(known)
    if outside.any():
        row: Any = outside.idxmax()
        raise DataError(
            f"{key}: row {row + 1} of {where} has label '{labels[row]}'; {what} are "
            f"{listing(known)}.{nearest(labels[row], known)}"
        )


def check_varied(labels: pd.Series, task: Task, key: str, where: str) -> None:
    """Raise if all labels are the same."""
    if labels.nunique() > 1:
        return
    only = f"only {labels.iloc[0]}" if len(labels) else "nothing"
    kind = "scores" if task.type == "regression" else "classes"
    raise DataError(
        f"{key}.label: {where} has {only} in {len(labels)} rows; a {task.type} task needs two {kind} or more"
    )


def classes(task: Task, labels: pd.Series) -> list[str] | None:
    """Class names in order of their index: as in `task.labels`, else sorted; none for regression."""
    if task.type == "regression":
        return None
    return list(dict.fromkeys(task.labels.values())) if task.labels else sorted(labels.unique())
