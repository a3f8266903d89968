"""Training and validation tables of a task from its source: splits, duplicates, pairs, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.data import anomalies, overlap, quality, splits
from headspec.data.pairs import pair
from headspec.data.sources.formats.options import NOTES
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.tables import INT, TEXT, Schema
from headspec.tasks import data
from headspec.tasks.parts import Classes

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


def stratified_order(labels: pd.Series, rng: np.random.Generator) -> np.ndarray:
    """Return positions 0..n-1, (n,), in random order; every prefix keeps the proportions of classes."""
    return interleaved(labels, rng.permutation(len(labels)))


def interleaved(labels: pd.Series, order: np.ndarray) -> np.ndarray:
    """Rearrange `order` (n,) so that every prefix keeps the proportions of classes.

    Items of a class stay in order. Item i (from 0) of the n_k items of class k is placed at (i + 1/2) / n_k
    of the whole, so that the first m items include m * n_k / n of class k, up to rounding.
    """
    by_class = labels.iloc[order].reset_index(drop=True)
    groups = by_class.groupby(by_class)
    place = (groups.cumcount() + 0.5) / groups.transform("size")
    return order[np.argsort(place.to_numpy(), kind="stable")]


DATA = Schema(
    {"example": INT, "text_a": TEXT, "text_b": TEXT, "label": TEXT},
    keys=1,
    paths=(
        "data/{task}/train.parquet",
        "data/{task}/validation.parquet",
        "data/{task}/further/{split}.parquet",
    ),
    about={
        "label": "name of the class, or the score; of answer pairs the right and the wrong answer, as JSON",
    },
)
UNLABELLED = Schema(
    {"example": INT, "index": INT, "text_a": TEXT, "text_b": TEXT},
    keys=1,
    row="example of a test set",
    paths=("data/{task}/test/{file}.parquet",),
)

HELD_OUT = 0.1  # fraction of the training split held out if there is no validation split
PAIR_CLASSES = ["different", "same"]


@dataclass(frozen=True)
class Split:
    """The rows of a split, and counts of dropped rows as in `Prepared.counts`.

    Columns: label (class, or score as text), and text_a, text_b, key_a, key_b as in `headspec.data.overlap`.
    """

    rows: pd.DataFrame
    counts: dict[str, int]
    quality: dict[str, Any] = field(default_factory=dict)  #: by `headspec.data.quality`, of stored splits


@dataclass(frozen=True)
class Source:
    """The splits of a task's source, before any limit on examples.

    Attributes
    ----------
    train : distinct rows whose texts are in no validation or further split of the task
    validation : all rows of the source's validation split, or rows held out of train
    further : all rows of each split in `task.further`
    odd : findings of the rules in `headspec.data.anomalies`
    """

    train: Split
    validation: Split
    further: dict[str, Split]
    classes: Classes
    odd: list[str]

    @property
    def by_split(self) -> dict[str, Split]:
        """The splits by name."""
        return {"train": self.train, "validation": self.validation} | self.further

    @property
    def quality(self) -> dict[str, dict[str, Any]]:
        """The `Split.quality` of each split."""
        return {name: split.quality for name, split in self.by_split.items()}

    @property
    def names(self) -> list[str]:
        """The names of classes, if there are any."""
        return class_names(self.classes)


@dataclass(frozen=True)
class Prepared:
    """A task's data, ready to be written.

    Attributes
    ----------
    train, validation : columns example (0, 1, ... in random order), and those of `Split.rows`
    counts
        Per split, numbers of rows; rows of the source's own validation split are counted but never dropped.

        - rows: read and kept by the filter; 0 for a held-out validation split
        - unlabelled: dropped, the label is one of the key `unlabelled`; only with this key
        - same: dropped, not two different texts or answers; only of continuations
        - blank: dropped, a word is blank; only of sentences
        - empty: dropped, a text is empty
        - duplicate: dropped, same texts (up to white space) as an earlier row
        - conflicting: duplicates whose label differs from that of the earlier row
        - in_validation, in_further: dropped from train, same texts as a row of such a split
        - held_out: moved from train to validation
        - in_other_tasks: dropped from train, other tasks are evaluated on the texts
        - examples: rows of the table
    leaks : number of training examples dropped for each other task that is evaluated on them
    """

    train: pd.DataFrame
    validation: pd.DataFrame
    counts: dict[str, dict[str, int]]
    classes: Classes
    leaks: dict[str, int] = field(default_factory=dict)


def prepare(name: str, task: Task, seed: int, parent: Prepared | None = None) -> Prepared:
    """Return a task's training and validation tables; `parent` is the prepared task that `pairs_of` names.

    Training examples on which other tasks are evaluated are kept.
    """
    if parent is None:
        read = read_source(name, task, seed)
        train_split, validation_split, classes = read.train, read.validation, read.classes
    else:
        train_split = pair_split(name, "train", parent.train, seed)
        validation_split, classes = pair_split(name, "validation", parent.validation, seed), PAIR_CLASSES
    train, train_counts, _ = train_table(name, task, train_split, seed, {})
    validation, validation_counts = validation_table(name, task, validation_split, seed)
    counts = {"train": train_counts, "validation": validation_counts}
    return Prepared(train, validation, counts, classes)


def read_source(name: str, task: Task, seed: int) -> Source:
    """Read a task's source and split it.

    Without a validation split, part of train is held out, stratified, in an order that depends only on `seed`
    and the texts, so that tasks with the same texts hold out nearly the same rows.
    """
    read = {
        split: overlap.with_keys(frame, seed) for split, frame in splits.read_labelled(name, task).items()
    }
    classes = data.reader(task.type).classes(task, read["train"]["label"])
    names = class_names(classes)
    normal = splits.normalised(read["train"])
    train, counts = _distinct(read["train"], normal)
    further = {}
    for other in task.further:
        frame = overlap.with_keys(splits.read_further(name, task, other, classes), seed)
        further[other] = _stored(task, frame, names)
        read[other] = frame
        seen = normal[train.index].isin(splits.normalised(frame))
        train = train[~seen]
        counts["in_further"] = counts.get("in_further", 0) + int(seen.sum())
    if "validation" in read:
        validation = _stored(task, read["validation"], names)
        seen = normal[train.index].isin(splits.normalised(validation.rows))
        train = train[~seen]
        counts["in_validation"] = int(seen.sum())
    else:
        n = _held_out(name, task, len(train))
        by_text = np.argsort(overlap.row_keys(train), kind="stable")
        order = interleaved(data.reader(task.type).strata(train), by_text)
        validation = Split(train.iloc[order[:n]], {"rows": 0, "held_out": n})
        train = train.iloc[np.sort(order[n:])]
        counts["held_out"] = n
    summary = quality.summary(read["train"], normal, data.reader(task.type), names)
    found = anomalies.odd(anomalies.Reading(f"tasks.{name}", task, names, read))
    return Source(Split(train, counts, summary), validation, further, classes, found)


def class_names(classes: Classes) -> list[str]:
    """Return the names of classes, if there are any."""
    return classes if isinstance(classes, list) else list((classes or {}).get("labels", []))


def _stored(task: Task, frame: pd.DataFrame, names: Sequence[str]) -> Split:
    """Return a split with all its rows."""
    normal = splits.normalised(frame)
    summary = quality.summary(frame, normal, data.reader(task.type), names)
    return Split(frame, _distinct(frame, normal)[1], summary)


def pair_split(name: str, split: str, parent: pd.DataFrame, seed: int) -> Split:
    """Return pairs of the texts of a split (`pairs_of`).

    Repeated validation texts are used once, empty ones not at all.
    """
    frame = overlap.with_keys(parent, seed)
    if split == "validation":
        frame = frame[(frame["key_a"] != 0) & ~frame["key_a"].duplicated()]
    rows = pair(frame, _rng(seed, f"{split} pairs", name), f"tasks.{name}.pairs_of")
    return Split(rows, {"rows": len(parent)})


def train_table(
    name: str, task: Task, split: Split, seed: int, seen: Mapping[str, np.ndarray]
) -> tuple[pd.DataFrame, dict[str, int], dict[str, int]]:
    """Return at most `train_examples` rows that no other task is evaluated on (`seen`), counts, and leaks."""
    rows, leaks = overlap.without_evaluated(name, split.rows, seen)
    counts = split.counts | ({"in_other_tasks": len(split.rows) - len(rows)} if leaks else {})
    frame = _limited(name, task, "train", rows, task.train_examples, seed)
    return frame, counts | {"examples": len(frame)}, leaks


def validation_table(name: str, task: Task, split: Split, seed: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return at most `validation_examples` rows, and counts as in `Prepared`."""
    frame = _limited(name, task, "validation", split.rows, task.validation_examples, seed)
    return frame, split.counts | {"examples": len(frame)}


def _limited(
    name: str, task: Task, split: str, rows: pd.DataFrame, limit: int | None, seed: int
) -> pd.DataFrame:
    """Return at most `limit` rows of a split, stratified by class and numbered in random order."""
    order = stratified_order(data.reader(task.type).strata(rows), _rng(seed, f"{split} subset", name))[:limit]
    return _numbered(
        name, task, rows, _rng(seed, f"{split} order", name).permutation(order), f"{split} split"
    )


def _numbered(name: str, task: Task, rows: pd.DataFrame, order: np.ndarray, what: str) -> pd.DataFrame:
    frame = rows.iloc[order].reset_index(drop=True)
    frame.insert(0, "example", np.arange(len(order), dtype=np.int32))
    data.check_varied(frame["label"], task, f"tasks.{name}", f"the {what}, once prepared,")
    return frame


def _rng(seed: int, *purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive(seed, *purpose))


def further_table(
    name: str, task: Task, other: str, seed: int, classes: Classes
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return at most `validation_examples` rows of a further split in random order, and counts."""
    rows = overlap.with_keys(splits.read_further(name, task, other, classes), seed)
    frame = further_examples(name, task, other, rows, seed)
    return frame, _distinct(rows, splits.normalised(rows))[1] | {"examples": len(frame)}


def further_examples(name: str, task: Task, other: str, rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the rows of a further split that `further_table` selects."""
    rng = _rng(seed, "further", name, other)
    strata = data.reader(task.type).strata(rows)
    order = rng.permutation(stratified_order(strata, rng)[: task.validation_examples])
    return _numbered(name, task, rows, order, f"further split {other}")


def _distinct(frame: pd.DataFrame, normal: pd.Series) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return rows without empty texts, or texts (`normal`) of earlier rows, and counts as in `Prepared`."""
    empty = (frame["text_a"].str.strip() == "") | (frame["text_b"].str.strip() == "")
    full, normal = frame[~empty], normal[~empty]
    duplicate = normal.duplicated()
    first_label = full["label"].groupby(normal).transform("first")
    counts = {
        "rows": len(frame),
        "empty": int(empty.sum()),
        "duplicate": int(duplicate.sum()),
        "conflicting": int((full["label"] != first_label).sum()),
    }
    numbers = {str(name): n for name, n in frame.attrs.items() if name != NOTES}
    return full[~duplicate], counts | numbers


def _held_out(name: str, task: Task, n: int) -> int:
    """Return the number of `n` rows to hold out for validation; raise DataError if none would be left."""
    size = task.validation_examples or max(1, int(n * HELD_OUT))
    if size >= n:
        raise DataError(
            f"tasks.{name}.validation_examples: {size} validation examples cannot be held out of {n} "
            "distinct rows; leave some for training"
        )
    return size
