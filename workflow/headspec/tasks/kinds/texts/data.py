"""Texts and pairs of texts from columns of a table, with a class, a score or several labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import as_text
from headspec.data.sources import columns
from headspec.errors import DataError
from headspec.tasks.data import Data, check_varied

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.tasks.parts import Classes


class Texts(Data):
    """Texts or pairs of texts, each with a label."""

    def texts(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        text_a = columns.text_column(frame, task.text_a, f"{key}.text_a", where)
        text_b = None
        if task.text_b is not None:
            text_b = columns.text_column(frame, task.text_b, f"{key}.text_b", where)
        return pd.DataFrame({"text_a": text_a, "text_b": text_b})

    def labels(self, stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
        """Return the labels of rows, as text, from a column of text or numbers."""
        raise NotImplementedError

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        stored = columns.with_lists(frame[str(task.label)])
        columns.check_plain(stored, f"{key}.label", where)
        label = self.labels(stored, task, key, where)
        check_varied(label, task, key, where)
        return texts.assign(label=label)


#: most numbers taken as classes, such as 77 intents, instead of scores
MOST_NUMBERS = 100


class Classification(Texts):
    least = "two classes"

    def labels(self, stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
        """Return the class of each row: the stored label, mapped by `task.labels` if set."""
        labels = columns.to_text(stored)
        mapping = {as_text(label): name for label, name in task.labels.items()} if task.labels else None
        unlabelled = labels.isna() if mapping and "-1" in mapping else labels.isna() | (labels == "-1")
        if unlabelled.any():
            raise DataError(columns.unlabelled_message(unlabelled, stored, task, key, where))
        if mapping is None:
            return labels
        columns.check_labels(labels, list(mapping), f"{key}.labels", where, "the labels")
        return labels.map(mapping)

    def classes(self, task: Task, labels: pd.Series) -> list[str]:
        """Return class names in the order of `task.labels`, else sorted."""
        return list(dict.fromkeys(task.labels.values())) if task.labels else sorted(labels.unique())

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        columns.check_labels(labels, list(classes or ()), key, where, "the classes of the training split")

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        return rows["label"]

    def notes(self, key: str, task: Task, classes: Classes) -> Iterator[str]:
        """Yield a line if the classes look like scores, or some of them like several others."""
        names = list(classes or ())
        if several := combinations(names):
            yield (
                f"{key}.label: {len(several)} of {len(names)} classes are others joined, such as "
                f"{several[0]!r}; for several labels of a text, set {key}.type to labels"
            )
        numbers = pd.to_numeric(pd.Series(classes), errors="coerce")
        scores = numbers.notna().all() and (len(numbers) > MOST_NUMBERS or (numbers % 1 != 0).any())
        if scores and not task.labels:
            yield (
                f"{key}.label: {len(numbers)} different numbers are taken as classes, from "
                f"{numbers.min():g} to {numbers.max():g}; for scores, set {key}.type to regression"
            )


CLASSIFICATION_DATA = Classification()


class Regression(Texts):
    least = "two scores"

    def classes(self, task: Task, labels: pd.Series) -> None:
        return None

    def labels(self, stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
        """Return the score of each row, as the shortest text that gives the same float."""
        labels = columns.to_text(stored)
        if labels.isna().any():
            raise DataError(columns.unlabelled_message(labels.isna(), stored, task, key, where))
        numbers = pd.to_numeric(labels, errors="coerce").astype(float)
        wrong = pd.Series(~np.isfinite(numbers), index=stored.index)
        if wrong.any():
            row: Any = wrong.idxmax()
            raise DataError(
                f"{key}.label: row {row + 1} of {where} has '{stored[row]}', but a regression task needs "
                f"finite numbers. For classes, set {key}.type to classification."
            )
        return pd.Series([repr(score) for score in numbers.tolist()], index=stored.index, dtype=object)


REGRESSION_DATA = Regression()


#: joins labels, and is hardly part of a name; some programs also write one after the last label
JOINT = re.compile(r"\s*([,;|，；｜、])\s*")


class Joined(ValueError):
    """A `name` looks like several labels between a `separator`, one of which is not a label elsewhere."""

    def __init__(self, name: str, separator: str) -> None:
        super().__init__(name)
        self.name, self.separator = name, separator


def split_names(names: Iterable[str], whole: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the parts of each name that is several labels, all of which are labels elsewhere.

    Parameters
    ----------
    names : what cells hold
    whole : names that are one label each, in which parts may be found, too

    Raises
    ------
    Joined
        A name has a `JOINT`, or spaces between words that other names have, too, but some parts are not
        labels elsewhere. Other spaces belong to names.
    """
    whole = {*whole}
    names = {*names} - whole
    jointed = {name: match[1] for name in names if (match := JOINT.search(name))}
    parts = {name: _parts(name) for name in jointed}
    single = whole | (names - {*jointed}) | {pieces[0] for pieces in parts.values() if len(pieces) == 1}
    for name in sorted(parts):
        if not {*parts[name]} <= single:
            raise Joined(name, jointed[name])
    return parts | _at_spaces(single - whole, whole)


def combinations(names: Iterable[str]) -> list[str]:
    """Return the names that are several of the others, joined."""
    known = {*names}

    def combined(pieces: list[str]) -> bool:
        return len(pieces) > 1 and known.issuperset(pieces)

    return sorted(name for name in known if combined(_parts(name)) or combined(name.split()))


def _parts(name: str) -> list[str]:
    pieces = JOINT.split(name)[::2]
    return pieces if pieces[-1] else pieces[:-1]


def _at_spaces(names: set[str], whole: set[str]) -> dict[str, list[str]]:
    words = {name: pieces for name in names if len(pieces := name.split()) > 1}
    single = whole | (names - {*words})
    parts = {name: pieces for name, pieces in words.items() if {*pieces} <= single}
    n = Counter(word for pieces in words.values() for word in {*pieces})
    for name, pieces in sorted(words.items()):
        elsewhere = [word in single or n[word] > 1 for word in pieces]
        if name not in parts and (all(elsewhere) or (parts and not single.isdisjoint(pieces))):
            raise Joined(name, " ")
    return parts


def written(names: Iterable[str]) -> str:
    """Return a set of labels as a sorted list in JSON."""
    return json.dumps(sorted({*names}), ensure_ascii=False)


def parsed(label: str) -> list[str]:
    """Return the names in JSON from `written`."""
    return [str(name) for name in json.loads(label)]


def indicators(labels: Iterable[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Return rows of 0 and 1, (n, names), for sets of labels in JSON."""
    index = {name: i for i, name in enumerate(names)}
    sets = [parsed(label) for label in labels]
    rows = np.zeros((len(sets), len(names)))
    for row, chosen in zip(rows, sets, strict=True):
        row[[index[name] for name in chosen]] = 1
    return rows
