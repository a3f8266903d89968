"""Texts and pairs of texts from columns of a table, with a class, a score or several labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.data.sources import columns
from headspec.errors import DataError
from headspec.tasks.data import Data, check_varied
from headspec.tasks.kinds.texts import label_cells
from headspec.tasks.kinds.texts.label_sets import parsed, written
from headspec.text_values import as_text

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys
    from headspec.tasks.parts import Classes


class Texts(Data):
    """How texts or pairs of texts are read, each with a label."""

    def texts(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        text_a = columns.text_column(frame, task.text_a, f"{key}.text_a", where)
        text_b = None
        if task.text_b is not None:
            text_b = columns.text_column(frame, task.text_b, f"{key}.text_b", where)
        return pd.DataFrame({"text_a": text_a, "text_b": text_b})

    def labels(self, stored: pd.Series, task: TaskKeys, key: str, where: str) -> pd.Series:
        """Return the labels of rows, as text, from a column of text or numbers."""
        raise NotImplementedError

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        stored = columns.with_nested(frame[str(task.label)])
        hint = f"; for several labels of a text, set {key}.type to labels"
        columns.check_plain(stored, f"{key}.label", where, hint)
        label = self.labels(stored, task, key, where)
        check_varied(label, task, key, where)
        return texts.assign(label=label)


class Classification(Texts):
    least = "two classes"

    def labels(self, stored: pd.Series, task: TaskKeys, key: str, where: str) -> pd.Series:
        """Return the class of each row: the stored label, mapped by `task.labels` if set."""
        labels = columns.to_text(stored)
        mapping = {as_text(label): name for label, name in task.labels.items()} if task.labels else None
        unlabelled = labels.isna() if mapping and "-1" in mapping else labels.isna() | (labels == "-1")
        if unlabelled.any():
            said = columns.unlabelled_message(unlabelled, stored, task, key, where)
            keep = "" if labels.isna().any() else f" If -1 is a class, name all classes in {key}.labels."
            raise DataError(f"{said}{keep}")
        if mapping is None:
            return labels
        columns.check_labels(labels, list(mapping), f"{key}.labels", where, "the labels")
        return labels.map(mapping)

    def classes(self, task: TaskKeys, labels: pd.Series) -> list[str]:
        """Return class names in the order of `task.labels`, else sorted."""
        return list(dict.fromkeys(task.labels.values())) if task.labels else sorted(labels.unique())

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        columns.check_labels(labels, list(classes or ()), key, where, "the classes of the training split")

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        return rows["label"]


CLASSIFICATION_DATA = Classification()


#: largest score, whose squared error float32 can hold, and smallest score above 0 with all digits of float32
LARGEST, SMALLEST = 1e18, float(np.finfo(np.float32).tiny)
#: largest step of float32 relative to the standard deviation of scores
COARSE = 0.01


def _check_resolution(numbers: pd.Series, key: str, where: str) -> None:
    """Raise DataError if scores are so far from 0 that float32 hardly tells them apart."""
    row: Any = numbers.abs().idxmax()
    step, spread = float(np.spacing(np.float32(abs(numbers[row])))), float(numbers.std())
    if step > COARSE * spread > 0:
        raise DataError(
            f"{key}: row {row + 1} of {where} has {numbers[row]:.10g}, where float32 has steps of {step:g}, "
            f"and the standard deviation of all scores is {spread:g}; subtract a constant from all "
            "scores to bring them nearer to 0"
        )


class Regression(Texts):
    least = "two scores"

    def classes(self, task: TaskKeys, labels: pd.Series) -> None:
        return None

    def labels(self, stored: pd.Series, task: TaskKeys, key: str, where: str) -> pd.Series:
        """Return the score of each row, as the shortest text that gives the same float."""
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


class LabelSets(Texts):
    """How texts or pairs of texts are read, each with any number of labels, which `written` joins."""

    least = "two sets of labels"

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        stored = _from_columns if isinstance(task.label, list) else label_cells.read
        sets = stored(frame, task, key, where)
        if task.labels is not None:
            mapping = {as_text(label): name for label, name in task.labels.items()}
            _check(sets, list(mapping), f"{key}.labels", where, "the labels")
            sets = sets.map(lambda names: [mapping[name] for name in names])
        label = sets.map(written)
        check_varied(label, task, key, where)
        return texts.assign(label=label)

    def classes(self, task: TaskKeys, labels: pd.Series) -> dict[str, Any]:
        """Return labels in the order of `task.labels` or of columns of 0 and 1, else sorted."""
        if task.labels is not None:
            names = list(dict.fromkeys(task.labels.values()))
        elif isinstance(task.label, list):
            names = list(task.label)
        else:
            names = sorted(self.tally(labels))
        return {"type": task.type, "labels": names}

    def tally(self, labels: pd.Series) -> Counter[str]:
        return Counter(name for label in labels for name in parsed(label))

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        assert isinstance(classes, dict)
        what = "the labels of the training split"
        _check(labels.map(parsed), classes["labels"], key, where, what)

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        """Return the rarest label of each row, or "", so that rare labels keep their shares."""
        sets = rows["label"].map(parsed)
        frequency = Counter(name for names in sets for name in names)
        return sets.map(lambda names: min(names, key=lambda name: (frequency[name], name), default=""))


def _from_columns(frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.Series:
    """Return the names of the columns that are 1 in each row."""
    flags = {}
    for name in task.label:
        columns.check_plain(frame[name], f"{key}.label", where)
        flags[name] = columns.to_text(frame[name]).str.lower().map(label_cells.FLAGS)
        if (wrong := flags[name].isna()).any():
            row: Any = wrong.idxmax()
            raise DataError(
                f"{key}.label: row {row + 1} of {where} has '{frame[name][row]}' in column '{name}', "
                f"expected 0 or 1 ({wrong.sum()} of {len(wrong)} rows)"
            )
    chosen = pd.DataFrame(flags).to_numpy(dtype=bool)
    names = np.array(list(flags), dtype=object)
    return pd.Series([names[row].tolist() for row in chosen], index=frame.index, dtype=object)


def _check(sets: pd.Series, valid: Sequence[str], key: str, where: str, what: str) -> None:
    """Raise DataError if a label is not `valid`; the message calls valid labels `what`."""
    known = {*valid}
    unknown = {row: name for row, names in sets.items() for name in names if name not in known}
    columns.check_labels(pd.Series(unknown, dtype=object).head(1), list(valid), key, where, what)


LABELS_DATA = LabelSets()
