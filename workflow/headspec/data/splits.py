"""The rows of each split of a task's source: filtered and checked, otherwise as stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec.data.sources import columns, readers
from headspec.data.sources.formats import registry
from headspec.data.sources.formats.options import NOTES
from headspec.data.sources.split_files import match_split
from headspec.errors import DataError
from headspec.tasks import data
from headspec.tasks.parts import Classes

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

TEXTS = ["text_a", "text_b"]


def text_columns(task: Task) -> dict[str, str]:
    """Return `text_a` and `text_b` if the task's training table has columns of these names.

    The result is empty if the config names `text_a`, or the table has the default column or cannot be read
    here.
    """
    if "text_a" in task.model_fields_set or task.source is None or task.source.startswith("hub:"):
        return {}
    try:
        held = readers.local_splits(task, "source")
        train = held.get(match_split(task.train_split, held) or "")
        if train is None or train.layout != "tables":
            return {}
        options = readers.options(task, "source", train.part)
        present = registry.names(train.files[0], options)
        if task.text_a in present or "text_a" not in present:
            return {}
        if "text_b" in task.model_fields_set or "text_b" not in present:
            return {"text_a": "text_a"}
        second = registry.table(train.files, lambda _: ["text_b"], options)["text_b"]
    except (DataError, KeyError, pa.ArrowException, OSError, ValueError):
        return {}
    return {"text_a": "text_a"} | ({"text_b": "text_b"} if columns.to_text(second).notna().any() else {})


def read_labelled(name: str, task: Task) -> dict[str, pd.DataFrame]:
    """Return the labelled rows of ``train`` and, if the source has it, ``validation``, filtered and checked.

    Columns are text_a, text_b (null for single texts) and label (class name, or score as text); missing texts
    are empty. The index is the row's position in the source. Raises DataError if the split ``train`` is
    missing, or a column, filter or label is invalid.
    """
    key = f"tasks.{name}"
    present = readers.splits(task, key)
    train = match_split(task.train_split, present)
    if train is None:
        several = len(present) > 2 and not str(task.source).startswith("hub:")
        hint = f" If these are one split, put them into a folder {task.train_split}/." if several else ""
        raise DataError(readers.no_split(f"{key}.train_split", task.train_split, present) + hint)
    names = {"train": train}
    validation = readers.validation_split(task, key, present)
    if validation and validation != train:
        names["validation"] = validation
    stored = {readers.name_of(task, split): readers.read_split(task, key, split) for split in names.values()}
    columns.check_filter(stored, task, key)
    kept = {where: columns.filtered(frame, task, key, where) for where, frame in stored.items()}
    columns.check_unlabelled(kept, data.reader(task.type).columns(task), task, key)
    frames = {split: _rows(task, key, where, kept[where]) for split, where in zip(names, kept, strict=True)}
    if "validation" in frames:
        kind, where = data.reader(task.type), readers.name_of(task, names["validation"])
        classes = kind.classes(task, frames["train"]["label"])
        kind.check_labels(frames["validation"]["label"], classes, f"{key}.label", where)
    return frames


def read_further(name: str, task: Task, other: str, classes: Classes) -> pd.DataFrame:
    """Return the rows of the further split `other`, as `read_labelled`.

    Raises DataError, also if a label is not in `classes`.
    """
    key = f"tasks.{name}"
    split_task, stored = _split(key, f"further.{other}", task, task.further[other])
    where = readers.name_of(split_task, stored)
    kept = columns.filtered(readers.read_split(split_task, key, stored), task, key, where)
    frame = _rows(split_task, key, where, kept)
    data.reader(task.type).check_labels(frame["label"], classes, f"{key}.label", where)
    return frame


def read_unlabelled(
    name: str, task: Task, file: str, train: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return all texts of the split for the prediction file `file`, in the source's order, and counts.

    Labels are not read: the hub has -1 in their place. Rows with texts of `train` are only counted
    (in_train); if they were removed, training would depend on the test set. Columns: example (0, 1, ...),
    index (the source's column idx, else like example), text_a, text_b (null for single texts). Raises
    DataError if there is no such split, a text column has no text, or the values of idx are not unique
    integers.
    """
    key = f"tasks.{name}"
    split_task, stored = _split(key, f"test.{file}", task, task.test[file])
    where = readers.name_of(split_task, stored)
    read = readers.read_split(split_task, key, stored, labelled=False).reset_index(drop=True)
    texts = data.reader(task.type).texts(read, task, key, where)
    example = np.arange(len(read), dtype=np.int32)
    index = pd.Series(example)
    if readers.INDEX in read:
        index = pd.to_numeric(read[readers.INDEX], errors="coerce")
        invalid = index.isna() | (index % 1 != 0) | index.duplicated() | (index.abs() >= 2**31)
        if invalid.any():
            row = int(np.argmax(invalid))
            raise DataError(
                f"{key}.test.{file}: row {row + 1} of {where} has '{read[readers.INDEX][row]}' in the "
                f"column {readers.INDEX}; expected distinct integers of 32 bits."
            )
    frame = texts.assign(example=example, index=index.astype(np.int32))
    frame = frame[["example", "index", *TEXTS]]
    return frame, {"rows": len(frame), "in_train": int(normalised(frame).isin(normalised(train)).sum())}


def _split(key: str, setting: str, task: Task, wanted: str) -> tuple[Task, str]:
    """Return task and split for a setting's value `wanted`; raise DataError if the split is missing."""
    split_task, stored = readers.with_subset(task, wanted)
    present = readers.splits(split_task, key)
    if stored not in present:
        raise DataError(readers.no_split(f"{key}.{setting}", wanted, present))
    return split_task, stored


def _rows(task: Task, key: str, where: str, kept: pd.DataFrame) -> pd.DataFrame:
    """Return the checked rows of a split that have a label; `attrs` counts the others.

    Raises DataError if none has one.
    """
    kind = data.reader(task.type)
    without = columns.unlabelled(kept, kind.columns(task), task.unlabelled) if task.unlabelled else None
    if without is not None and without.all():
        raise DataError(f"{key}.unlabelled: none of {len(kept)} rows of {where} has a label")
    rows = kind.rows(kept if without is None else kept[~without], task, key, where)
    rows.attrs |= {} if without is None else {"unlabelled": int(without.sum())}
    rows.attrs[NOTES] = kept.attrs.get(NOTES, [])
    return rows


def normalised(frame: pd.DataFrame) -> pd.Series:
    """Return the texts of each row as one string, with white space normalised."""
    texts = frame[TEXTS].dropna(axis="columns", how="all")
    joined = ["\t".join(" ".join(text.split()) for text in row) for row in texts.itertuples(index=False)]
    return pd.Series(joined, index=frame.index, dtype="str")
