"""From a task's source to its training and validation tables: labels, splits, duplicates, pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec import columns, readers
from headspec.errors import DataError, listing, nearest
from headspec.pairs import pair
from headspec.seeds import derive
from headspec.strata import stratified_order
from headspec.tables import INT, TEXT, Schema

if TYPE_CHECKING:
    from headspec.sections import Task
    from headspec.study import Study

# label: class name, or the score of a regression task as text
DATA = Schema({"example": INT, "text_a": TEXT, "text_b": TEXT, "label": TEXT}, keys=1)
# of a test set, in its order; index: what its rows are called in prediction files
UNLABELLED = Schema({"example": INT, "index": INT, "text_a": TEXT, "text_b": TEXT}, keys=1)

HELD_OUT = 0.1  # fraction of a source without a validation split that becomes one
DEFAULT_SPLIT = "validation"  # as `headspec.sections` has it; a source may be without
TEXTS = ["text_a", "text_b"]


@dataclass(frozen=True)
class Prepared:
    """A task's data, ready to be written.

    Attributes
    ----------
    train, validation
        Columns example (0, 1, ... in an order without information), text_a, text_b (null for single
        texts), label (class name, or the score as text).
    counts
        Split: what was dropped and what is left.

        - rows: read and kept by the filter; 0 for a validation split that is held out
        - empty: dropped, without text
        - duplicate: dropped, same texts (up to white space) as an earlier row
        - conflicting: those of them whose label differs from the earlier row's
        - in_validation: dropped from train, same texts as a validation row
        - in_further: dropped from train, same texts as a row of a further split
        - held_out: moved from train to validation
        - examples: rows of the table
    classes
        Class names in order of their index; none for regression.
    """

    train: pd.DataFrame
    validation: pd.DataFrame
    counts: dict[str, dict[str, int]]
    classes: list[str] | None


def check(study: Study) -> dict[str, Prepared]:
    """Prepare every task that needs no network, so that no job starts on data that will not do.

    Returns
    -------
    prepared : name: the task, of those

    Raises
    ------
    DataError
        With one line for every problem found.
    """
    problems: list[DataError] = []
    prepared: dict[str, Prepared] = {}
    for name, task in sorted(study.tasks.items(), key=lambda item: item[1].pairs_of is not None):
        try:
            if task.pairs_of in prepared:
                prepared[name] = prepare(name, task, study.data_seed, prepared[task.pairs_of])
            elif task.source is not None and not task.source.startswith("hub:"):
                prepared[name] = prepare(name, task, study.data_seed)
                for file in task.test:
                    unlabelled(name, task, file, prepared[name].train)
        except DataError as error:
            problems.append(error)
    if problems:
        raise DataError.of(problems)
    return prepared


def prepare(name: str, task: Task, seed: int, parent: Prepared | None = None) -> Prepared:
    """The training and validation tables of a task.

    Exact duplicates are removed within each split, and training rows that also occur in validation
    or in a further split from train. Where the source has no validation split, a stratified part of
    train is held out. Pairs (`pairs_of`) are made within each of the parent's splits, so no text is
    in both.

    Parameters
    ----------
    name
        The task's name in the config.
    task
        Its settings.
    seed
        The study's `data_seed`.
    parent
        The prepared task that `task.pairs_of` names.

    Raises
    ------
    DataError
        If the data is missing, unreadable, or not what the config says.
    """

    def rng(purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive(seed, purpose, name))

    limits = {"train": task.train_examples, "validation": task.validation_examples}
    classes: list[str] | None
    if parent is None:
        splits, counts, classes = _from_source(name, task, rng)
    else:
        splits = {s: pair(getattr(parent, s), rng(f"{s} pairs"), f"tasks.{name}.pairs_of") for s in limits}
        counts = {split: {"rows": len(frame)} for split, frame in splits.items()}
        classes = ["different", "same"]
    for split, limit in limits.items():
        order = stratified_order(_strata(task, splits[split]), rng(f"{split} subset"))[:limit]
        order = rng(f"{split} order").permutation(order)
        splits[split] = splits[split].iloc[order].reset_index(drop=True)
        splits[split].insert(0, "example", np.arange(len(order), dtype=np.int32))
        counts[split]["examples"] = len(order)
        what = f"the {split} split, once prepared,"
        columns.check_varied(splits[split]["label"], task, f"tasks.{name}", what)
    return Prepared(splits["train"], splits["validation"], counts, classes)


def _from_source(
    name: str, task: Task, rng: Callable[[str], np.random.Generator]
) -> tuple[dict[str, pd.DataFrame], dict[str, dict[str, int]], list[str] | None]:
    """Splits without duplicates and overlap, what was dropped, and the classes."""
    splits, counts = rows(name, task), {}
    classes = columns.classes(task, splits["train"]["label"])
    for split in splits:
        splits[split], counts[split] = _clean(splits[split])
    for other in task.further:
        seen = _normal(splits["train"]).isin(_normal(_further(name, task, other, classes)))
        splits["train"] = splits["train"][~seen]
        counts["train"]["in_further"] = counts["train"].get("in_further", 0) + int(seen.sum())
    train = splits["train"]
    if "validation" in splits:
        seen = _normal(train).isin(_normal(splits["validation"]))
        splits["train"] = train[~seen]
        counts["train"]["in_validation"] = int(seen.sum())
    else:
        held_out = _held_out(name, task, len(train))
        order = stratified_order(_strata(task, train), rng("validation split"))
        splits["validation"], splits["train"] = train.iloc[order[:held_out]], train.iloc[order[held_out:]]
        counts["train"]["held_out"] = held_out
        counts["validation"] = {"rows": 0, "held_out": held_out}
    return splits, counts, classes


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


def further(
    name: str, task: Task, other: str, seed: int, classes: list[str] | None
) -> tuple[pd.DataFrame, dict[str, int]]:
    """One of a task's further splits, cleaned and put into an order as its validation split is.

    Parameters
    ----------
    other : the split's name in `task.further`
    classes : those of the training split

    Returns
    -------
    frame, counts : as in `Prepared`
    """
    frame, counts = _clean(_further(name, task, other, classes))
    rng = np.random.default_rng(derive(seed, "further", name, other))
    order = rng.permutation(stratified_order(_strata(task, frame), rng)[: task.validation_examples])
    frame = frame.iloc[order].reset_index(drop=True)
    frame.insert(0, "example", np.arange(len(order), dtype=np.int32))
    columns.check_varied(frame["label"], task, f"tasks.{name}", f"the further split {other}, once prepared,")
    return frame, counts | {"examples": len(frame)}


def _further(name: str, task: Task, other: str, classes: list[str] | None) -> pd.DataFrame:
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
    return frame, {"rows": len(frame), "in_train": int(_normal(frame).isin(_normal(train)).sum())}


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


def _normal(frame: pd.DataFrame) -> pd.Series:
    """The texts of each row as one string, with white space normalised."""
    texts = frame[TEXTS].dropna(axis="columns", how="all")
    joined = ["\t".join(" ".join(text.split()) for text in row) for row in texts.itertuples(index=False)]
    return pd.Series(joined, index=frame.index, dtype="str")


def _clean(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """`frame` without empty texts and repeated rows, and how many there were."""
    empty = (frame["text_a"].str.strip() == "") | (frame["text_b"].str.strip() == "")
    full = frame[~empty]
    normal = _normal(full)
    duplicate = normal.duplicated()
    first_label = full["label"].groupby(normal).transform("first")
    counts = {
        "rows": len(frame),
        "empty": int(empty.sum()),
        "duplicate": int(duplicate.sum()),
        "conflicting": int((full["label"] != first_label).sum()),
    }
    return full[~duplicate], counts


def _held_out(name: str, task: Task, n: int) -> int:
    """Number of rows to hold out of `n` for validation."""
    wanted = task.validation_examples or max(1, int(n * HELD_OUT))
    if wanted >= n:
        raise DataError(
            f"tasks.{name}.validation_examples: {wanted} validation examples cannot be held out of {n} "
            "distinct rows; at least one must be left to train on"
        )
    return wanted


def _strata(task: Task, frame: pd.DataFrame) -> pd.Series:
    """What a subset keeps the shares of: the classes; nothing in a regression task."""
    return frame["label"] if task.type == "classification" else pd.Series("", index=frame.index)
