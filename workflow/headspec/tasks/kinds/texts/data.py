"""Texts and pairs of texts from the columns of a table, with a class, a score or several labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import as_text
from headspec.data import joints
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
        stored = columns.with_nested(frame[str(task.label)])
        hint = f"; for several labels of a text, set {key}.type to labels"
        columns.check_plain(stored, f"{key}.label", where, hint)
        label = self.labels(stored, task, key, where)
        check_varied(label, task, key, where)
        return texts.assign(label=label)


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


CLASSIFICATION_DATA = Classification()


#: largest score whose squared error fits in float32, and smallest that float32 represents in full precision
LARGEST, SMALLEST = 1e18, float(np.finfo(np.float32).tiny)
#: maximum resolution of float32, relative to the standard deviation of scores
COARSE = 0.01


def _check_resolution(numbers: pd.Series, key: str, where: str) -> None:
    """Raise DataError if scores are so far from 0 that float32 hardly distinguishes them."""
    row: Any = numbers.abs().idxmax()
    step, spread = float(np.spacing(np.float32(abs(numbers[row])))), float(numbers.std())
    if step > COARSE * spread > 0:
        raise DataError(
            f"{key}: row {row + 1} of {where} has {numbers[row]:.10g}, where float32 has steps of {step:g}, "
            f"and the standard deviation of all scores is {spread:g}; expected scores nearer to 0, so "
            "subtract a number from all"
        )


class Regression(Texts):
    least = "two scores"

    def classes(self, task: Task, labels: pd.Series) -> None:
        return None

    def labels(self, stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
        """Return the score of each row, as the shortest text for the same float."""
        labels = columns.to_text(stored)
        if labels.isna().any():
            raise DataError(columns.unlabelled_message(labels.isna(), stored, task, key, where))
        numbers = pd.to_numeric(labels, errors="coerce").astype(float)
        size = numbers.abs()
        wrong: dict[str, pd.Series] = {
            "finite numbers": pd.Series(~np.isfinite(numbers), index=stored.index),
            f"numbers up to {LARGEST:g}, whose squares float32 can hold": size > LARGEST,
            f"0 or numbers from {SMALLEST:.1e} on, which float32 can hold": (size > 0) & (size < SMALLEST),
        }
        for needs, found in wrong.items():
            if found.any():
                row: Any = found.idxmax()
                raise DataError(
                    f"{key}.label: row {row + 1} of {where} has '{stored[row]}', but a regression task needs "
                    f"{needs}. For classes, set {key}.type to classification."
                )
        _check_resolution(numbers, f"{key}.label", where)
        return pd.Series([repr(score) for score in numbers.tolist()], index=stored.index, dtype=object)


REGRESSION_DATA = Regression()


def split_names(names: Iterable[str], whole: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the labels in each name that joins several labels, all of which are labels elsewhere.

    Parameters
    ----------
    names : values of cells
    whole : names that are single labels, which may also be parts of others

    Raises
    ------
    joints.Unclear
        A name has one of `joints.MARKS`, a joint of other labels, or spaces between words of other names, but
        some of its parts are not labels elsewhere.
    """
    whole = {*whole}
    names = {*names} - whole
    parts = {name: joints.marked(name) for name in names if joints.MARKS.search(name)}
    single = whole | (names - {*parts}) | {pieces[0] for pieces in parts.values() if len(pieces) == 1}
    for name in sorted(parts):
        if not {*parts[name]} <= single:
            raise joints.Unclear(name, joints.whole_joint(names, name))
    return parts | _at_other_joints(single - whole, whole)


def _at_other_joints(names: set[str], whole: set[str]) -> dict[str, list[str]]:
    """Return the labels in names joined by anything else."""
    found = {name: one for name, one in joints.composed(names | whole).items() if name in names}
    for name in joints.rarely_worded(found):
        raise joints.Unclear(name, found[name].joint)
    usual = dict.fromkeys(one.joint for one in found.values())
    alone = (names | whole) - {*found}
    for name in sorted(names - {*found}):
        for joint in usual:
            if len(pieces := joints.pieces(name, joint)) > 1 and not alone.isdisjoint(pieces):
                raise joints.Unclear(name, joint)
    spaced = {name: pieces for name in sorted(names - {*found}) if len(pieces := name.split()) > 1}
    n = Counter(word for name in names for word in {*name.split()})
    for name, pieces in spaced.items():
        if all(word in alone - {*spaced} or n[word] > 1 for word in pieces):
            several = joints.recurring(names)
            raise joints.Unclear(name, several.joint if several and several.joint in name else " ")
    return {name: one.parts for name, one in found.items()}


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
