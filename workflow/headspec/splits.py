"""The rows of a task's source, split by split: filtered, checked, and otherwise as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec import columns, readers
from headspec.errors import DataError, listing, nearest

if TYPE_CHECKING:
    from headspec.sections import Task

DEFAULT_SPLIT = "validation"  # as `headspec.sections` has it; a source may be without
TEXTS = ["text_a", "text_b"]


def rows(name: str, task: Task) -> dict[str, pd.DataFrame]:
    """The labelled rows of a task's source, filtered and checked.

    Returns
    -------
    dict
        ``train``, and ``validation`` if the source has that split: columns text_a, text_b (null for
        single texts; missing texts are empty), label (class name, or the score as text). The index
        is the row's position in the source.

    Raises
    ------
    DataError
        Naming the config key and, where one is to blame, the row (counted from 1, without header).
    """
    key = f"tasks.{name}"
    known = readers.splits(task, key)
    if task.train_split not in known:
        raise DataError(_no_split(f"{key}.train_split", task.train_split, known))
    names = {"train": task.train_split}
    if task.validation_split in known and task.validation_split != task.train_split:
        names["validation"] = str(task.validation_split)
    elif task.validation_split not in (None, DEFAULT_SPLIT):
        raise DataError(_no_split(f"{key}.validation_split", task.validation_split, known))
    found = {split: _rows(task, key, stored) for split, stored in names.items()}
    classes = columns.classes(task, found["train"]["label"])
    if classes and "validation" in found:
        where = readers.name_of(task, names["validation"])
        what = "the classes of the training split"
        columns.check_known(found["validation"]["label"], classes, f"{key}.label", where, what)
    return found


def further(name: str, task: Task, other: str, classes: list[str] | None) -> pd.DataFrame:
    """The rows of a further split as `rows` gives them."""
    key = f"tasks.{name}"
    own, stored = _split(key, f"further.{other}", task, task.further[other])
    found = _rows(own, key, stored)
    if classes:
        what = "the classes of the training split"
        columns.check_known(found["label"], classes, f"{key}.label", readers.name_of(own, stored), what)
    return found


def unlabelled(name: str, task: Task, file: str, train: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """The texts of a split whose predictions are written to `file`: every row, in the source's order.

    Labels are not read: the hub has -1 in their place. Training rows with the same texts stay in
    train, whose make-up would else depend on the test set; they are counted.

    Returns
    -------
    frame : columns example (0, 1, ...), index (the source's column idx, else as example), text_a,
        text_b (null for single texts; missing texts are empty)
    counts : rows, and in_train, those with the texts of a row of `train`

    Raises
    ------
    DataError
        No such split, texts that are none, or an idx that does not number the rows.
    """
    key = f"tasks.{name}"
    own, stored = _split(key, f"test.{file}", task, task.test[file])
    where = readers.name_of(own, stored)
    read = readers.read(own, key, stored, labelled=False).reset_index(drop=True)
    text_a = columns.texts(read, task.text_a, f"{key}.text_a", where)
    text_b = None if task.text_b is None else columns.texts(read, task.text_b, f"{key}.text_b", where)
    example = np.arange(len(read), dtype=np.int32)
    index = pd.Series(example)
    if readers.INDEX in read:
        index = pd.to_numeric(read[readers.INDEX], errors="coerce")
        wrong = index.isna() | (index % 1 != 0) | index.duplicated()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{key}.test.{file}: row {row + 1} of {where} has '{read[readers.INDEX][row]}' in the column "
                f"{readers.INDEX}; expected whole numbers, each once."
            )
    frame = pd.DataFrame(
        {"example": example, "index": index.astype(np.int32), "text_a": text_a, "text_b": text_b}
    )
    return frame, {"rows": len(frame), "in_train": int(normal(frame).isin(normal(train)).sum())}


def _split(key: str, setting: str, task: Task, wanted: str) -> tuple[Task, str]:
    """Task and split that `wanted`, the value of a setting, names; the source has it."""
    own, stored = readers.of_subset(task, wanted)
    known = readers.splits(own, key)
    if stored not in known:
        raise DataError(_no_split(f"{key}.{setting}", wanted, known))
    return own, stored


def _rows(task: Task, key: str, stored: str) -> pd.DataFrame:
    where = readers.name_of(task, stored)
    frame = columns.filtered(readers.read(task, key, stored), task, key, where)
    text_a = columns.texts(frame, task.text_a, f"{key}.text_a", where)
    text_b = None if task.text_b is None else columns.texts(frame, task.text_b, f"{key}.text_b", where)
    labels = columns.scores if task.type == "regression" else columns.class_names
    label = labels(frame[task.label], task, key, where)
    columns.check_varied(label, task, key, where)
    return pd.DataFrame({"text_a": text_a, "text_b": text_b, "label": label})


def _no_split(key: str, split: object, known: list[str]) -> str:
    return f"{key}: no split '{split}' in the source; it has {listing(known)}.{nearest(split, known)}"


def normal(frame: pd.DataFrame) -> pd.Series:
    """The texts of each row as one string, with white space normalised."""
    texts = frame[TEXTS].dropna(axis="columns", how="all")
    joined = ["\t".join(" ".join(text.split()) for text in row) for row in texts.itertuples(index=False)]
    return pd.Series(joined, index=frame.index, dtype="str")
