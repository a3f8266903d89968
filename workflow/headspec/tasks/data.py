"""Reading a task's source: `DATA` of its kind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from headspec.errors import DataError
from headspec.tasks.parts import load_part

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys
    from headspec.tasks.parts import Classes


class Data:
    """How labelled examples are read; `DATA` of a kind is an instance of a subclass.

    `least` names the labels required, if one is not enough; `several` tells whether a text may have several.
    """

    least = ""
    several = False

    def columns(self, task: TaskKeys) -> list[str]:
        """Return the names of the label's columns."""
        return [task.label] if isinstance(task.label, str) else list(task.label)

    def texts(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return text_a, text_b (null for single texts), and the label if it is a text, to count tokens.

        Missing texts become empty. Raises DataError if a column does not hold texts.
        """
        raise NotImplementedError

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return the checked rows of a split: text_a, text_b and label (text), with the index of `frame`.

        The index has positions in the source. Raises DataError with the number of an invalid row.
        """
        raise NotImplementedError

    def distinct(self, labels: pd.Series) -> list[str]:
        """Return the distinct labels of a split, to check that there is something to learn."""
        return labels.unique().tolist()

    def tally(self, labels: pd.Series) -> Counter[str]:
        """Return the count of each class in labels."""
        return Counter(labels)

    def claims(self, labels: pd.Series) -> pd.Series:
        """Return the part of labels that must not differ between rows with the same text; "" if none."""
        return pd.Series("", index=labels.index) if self.several else labels

    def classes(self, task: TaskKeys, labels: pd.Series) -> Classes:
        """Return the `Classes` determined by the labels of the training split."""
        return {"type": task.type}

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        """Raise DataError if labels of an evaluated split are not in the training split; accept all here."""

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        """Return the stratum of each row, for drawing subsets; a single value if there are no classes."""
        return pd.Series("", index=rows.index)

    def row_quality(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Return entries that replace or extend `headspec.data.quality.summary` of rows with texts.

        `more` has a list for each kind of warning: the number of rows; the first one or two of them, from 1;
        what is wrong with them, in words; and the share that deserves a warning, 0 for any row.
        """
        return {}


def reader(kind: str) -> Data:
    """Return `DATA` of a kind of task."""
    return cast(Data, load_part(kind, "DATA"))


def check_varied(labels: pd.Series, task: TaskKeys, key: str, where: str) -> None:
    """Raise DataError if all labels are equal where several are needed, or no word has a label."""
    data = reader(task.type)
    names = data.distinct(labels)
    if len(names) > 1 or (names and not data.least):
        return
    content = f"only {names[0]}" if names else "nothing"
    raise DataError(
        f"{key}.label: {where} has {content} in {len(labels)} rows, but a task of type {task.type} needs at "
        f"least {data.least or 'one label'}"
    )
