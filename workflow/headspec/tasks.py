"""From a task's source to its training and validation tables: labels, splits, duplicates, pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec import columns, overlap, splits
from headspec.errors import DataError
from headspec.pairs import pair
from headspec.seeds import derive
from headspec.strata import interleaved, stratified_order
from headspec.tables import INT, TEXT, Schema

if TYPE_CHECKING:
    from headspec.sections import Task

# label: class name, or the score of a regression task as text
DATA = Schema({"example": INT, "text_a": TEXT, "text_b": TEXT, "label": TEXT}, keys=1)
# of a test set, in its order; index: what its rows are called in prediction files
UNLABELLED = Schema({"example": INT, "index": INT, "text_a": TEXT, "text_b": TEXT}, keys=1)

HELD_OUT = 0.1  # fraction of a source without a validation split that becomes one
PAIR_CLASSES = ["different", "same"]


@dataclass(frozen=True)
class Split:
    """Rows of a split and what became of others on the way, as in `Prepared.counts`.

    Columns text_a, text_b (null for single texts), label (class name, or the score as text), key_a and
    key_b (see `headspec.overlap`). Nothing here looks at texts, so they may be left out.
    """

    rows: pd.DataFrame
    counts: dict[str, int]


@dataclass(frozen=True)
class Source:
    """What a task's source holds, before any limit on examples.

    Attributes
    ----------
    train
        Distinct rows that are in no validation or further split of the task.
    validation
        Every row of the source's validation split, else what is held out of train.
    further
        Name in `task.further`: every row of that split.
    classes
        Class names in order of their index; none for regression.
    """

    train: Split
    validation: Split
    further: dict[str, Split]
    classes: list[str] | None


@dataclass(frozen=True)
class Prepared:
    """A task's data, ready to be written.

    Attributes
    ----------
    train, validation
        Columns example (0, 1, ... in an order without information), and those of `Split.rows`.
    counts
        Split: what was dropped and what is left. A validation split of the source stays as it is, and
        what would be dropped elsewhere is only counted there.

        - rows: read and kept by the filter; 0 for a validation split that is held out
        - empty: dropped, without text
        - duplicate: dropped, same texts (up to white space) as an earlier row
        - conflicting: those of them whose label differs from the earlier row's
        - in_validation: dropped from train, same texts as a validation row
        - in_further: dropped from train, same texts as a row of a further split
        - held_out: moved from train to validation
        - in_other_tasks: dropped from train, texts on which other tasks are evaluated
        - examples: rows of the table
    classes
        As in `Source`.
    leaks
        Other task: training examples that went because it is evaluated on them.
    """

    train: pd.DataFrame
    validation: pd.DataFrame
    counts: dict[str, dict[str, int]]
    classes: list[str] | None
    leaks: dict[str, int] = field(default_factory=dict)


def prepare(name: str, task: Task, seed: int, parent: Prepared | None = None) -> Prepared:
    """The training and validation tables of a task by itself.

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
    if parent is None:
        found = source(name, task, seed)
        learnt, held, classes = found.train, found.validation, found.classes
    else:
        learnt = pairs(name, "train", parent.train, seed)
        held, classes = pairs(name, "validation", parent.validation, seed), PAIR_CLASSES
    first, counts, _ = train(name, task, learnt, seed, {})
    second, held_counts = validation(name, task, held, seed)
    return Prepared(first, second, {"train": counts, "validation": held_counts}, classes)


def source(name: str, task: Task, seed: int) -> Source:
    """Read a task's source and part it.

    Training rows are distinct, and none has the texts of a validation or further row. Where the source
    has no validation split, a stratified part of train is held out, in an order that only `seed` and the
    texts decide. So tasks with the same texts hold out nearly the same: what differs at the edge of a
    class is left out of the other's training.
    """
    read = {split: overlap.keyed(frame, seed) for split, frame in splits.rows(name, task).items()}
    classes = columns.classes(task, read["train"]["label"])
    train, counts = _distinct(read["train"])
    further = {}
    for other in task.further:
        frame = overlap.keyed(splits.further(name, task, other, classes), seed)
        further[other] = Split(frame, _distinct(frame)[1])
        seen = splits.normal(train).isin(splits.normal(frame))
        train = train[~seen]
        counts["in_further"] = counts.get("in_further", 0) + int(seen.sum())
    if "validation" in read:
        validation = Split(read["validation"], _distinct(read["validation"])[1])
        seen = splits.normal(train).isin(splits.normal(validation.rows))
        train = train[~seen]
        counts["in_validation"] = int(seen.sum())
    else:
        n = _held_out(name, task, len(train))
        order = interleaved(_strata(task, train), overlap.order(train))
        validation = Split(train.iloc[order[:n]], {"rows": 0, "held_out": n})
        train = train.iloc[np.sort(order[n:])]
        counts["held_out"] = n
    return Source(Split(train, counts), validation, further, classes)


def pairs(name: str, split: str, parent: pd.DataFrame, seed: int) -> Split:
    """Pairs of the texts of a split (`pairs_of`); of those of validation, which may repeat, each once."""
    frame = overlap.keyed(parent, seed)
    if split == "validation":
        frame = overlap.distinct(frame)
    made = pair(frame, _rng(seed, f"{split} pairs", name), f"tasks.{name}.pairs_of")
    return Split(made, {"rows": len(parent)})


def train(
    name: str, task: Task, found: Split, seed: int, seen: Mapping[str, np.ndarray]
) -> tuple[pd.DataFrame, dict[str, int], dict[str, int]]:
    """A task's training table: without what other tasks are evaluated on, at most `train_examples`.

    Parameters
    ----------
    seen
        Task that shares an encoder with it: which rows of `found` it is evaluated on, (n,) of bool.

    Returns
    -------
    frame, counts, leaks : as in `Prepared`
    """
    rows, leaks = overlap.removed(name, found.rows, seen)
    counts = found.counts | ({"in_other_tasks": len(found.rows) - len(rows)} if leaks else {})
    frame = _limited(name, task, "train", rows, task.train_examples, seed)
    return frame, counts | {"examples": len(frame)}, leaks


def validation(name: str, task: Task, found: Split, seed: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """A task's validation table, at most `validation_examples`, and counts as in `Prepared`."""
    frame = _limited(name, task, "validation", found.rows, task.validation_examples, seed)
    return frame, found.counts | {"examples": len(frame)}


def _limited(
    name: str, task: Task, split: str, rows: pd.DataFrame, limit: int | None, seed: int
) -> pd.DataFrame:
    """At most `limit` rows of a split, in the shares of the classes, numbered in a random order."""
    order = stratified_order(_strata(task, rows), _rng(seed, f"{split} subset", name))[:limit]
    return _numbered(
        name, task, rows, _rng(seed, f"{split} order", name).permutation(order), f"{split} split"
    )


def _numbered(name: str, task: Task, rows: pd.DataFrame, order: np.ndarray, what: str) -> pd.DataFrame:
    frame = rows.iloc[order].reset_index(drop=True)
    frame.insert(0, "example", np.arange(len(order), dtype=np.int32))
    columns.check_varied(frame["label"], task, f"tasks.{name}", f"the {what}, once prepared,")
    return frame


def _rng(seed: int, *purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive(seed, *purpose))


def further(
    name: str, task: Task, other: str, seed: int, classes: list[str] | None
) -> tuple[pd.DataFrame, dict[str, int]]:
    """One of a task's further splits, as it is, in an order as its validation split has.

    Parameters
    ----------
    other : the split's name in `task.further`
    classes : those of the training split

    Returns
    -------
    frame, counts : as in `Prepared`
    """
    rows = overlap.keyed(splits.further(name, task, other, classes), seed)
    frame = further_examples(name, task, other, rows, seed)
    return frame, _distinct(rows)[1] | {"examples": len(frame)}


def further_examples(name: str, task: Task, other: str, rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """At most `validation_examples` of the rows of a further split, as `further` takes them."""
    rng = _rng(seed, "further", name, other)
    order = rng.permutation(stratified_order(_strata(task, rows), rng)[: task.validation_examples])
    return _numbered(name, task, rows, order, f"further split {other}")


def _distinct(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """`frame` without empty texts and repeated rows, and how many there are."""
    empty = (frame["text_a"].str.strip() == "") | (frame["text_b"].str.strip() == "")
    full = frame[~empty]
    normal = splits.normal(full)
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
