"""Sets of labels from a column of lists, or from 0/1 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.config.values import as_text
from headspec.data.sources import columns
from headspec.errors import DataError
from headspec.tasks.data import check_varied
from headspec.tasks.kinds.texts import label_cells
from headspec.tasks.kinds.texts.data import Texts, parsed, written

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.tasks.parts import Classes


class LabelSets(Texts):
    """Texts or pairs of texts, each with any number of labels, joined in cells by `written`."""

    least = "two sets of labels"

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
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

    def classes(self, task: Task, labels: pd.Series) -> dict[str, Any]:
        """Return labels in the order of `task.labels` or of 0/1 columns, else sorted."""
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


def _from_columns(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.Series:
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
    """Raise DataError if a label is not one of `valid`, which the message calls `what`."""
    known = {*valid}
    unknown = {row: name for row, names in sets.items() for name in names if name not in known}
    columns.check_labels(pd.Series(unknown, dtype=object).head(1), list(valid), key, where, what)


LABELS_DATA = LabelSets()
