"""The part ``data.py`` of a kind of task: what is read of its source. It is imported when a task needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

from headspec.errors import DataError
from headspec.tasks import load_part

if TYPE_CHECKING:
    import pandas as pd

    from headspec.config.sections.task import Task
    from headspec.tasks.classes import Classes


class Data(Protocol):
    """The object `DATA` of a kind's ``data.py``.

    Attributes
    ----------
    least : what labels are at least, where one is not enough
    several : whether a text may have several right labels, which contradict no other
    """

    least: str
    several: bool

    def columns(self, task: Task) -> list[str]:
        """The columns of the label."""

    def texts(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        """The texts of rows, and labels that are texts: what planning counts tokens of.

        Returns
        -------
        DataFrame
            Columns text_a, text_b (null for single texts; missing texts are empty), and perhaps label.

        Raises
        ------
        DataError
            A column holds no texts.
        """

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        """The checked rows of a split.

        Parameters
        ----------
        frame : the stored columns; the index has positions in the source
        key, where : config key of the task, and what the split is called, for errors

        Returns
        -------
        DataFrame
            Columns text_a, text_b and label (text), and the index of `frame`.

        Raises
        ------
        DataError
            A row has no such label; with its number.
        """

    def distinct(self, labels: pd.Series) -> list[str]:
        """What differs in the labels of a split, of which there has to be something to learn."""

    def classes(self, task: Task, labels: pd.Series) -> Classes:
        """The `Classes` that the labels of the training split have."""

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        """DataError if labels of an evaluated split are not those of the training split."""

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        """What subsets keep the shares of: the classes, or the same value for all rows."""

    def doubts(self, rows: pd.DataFrame) -> dict[str, Any]:
        """What replaces or adds to what is doubtful in rows with texts (`headspec.data.quality.summary`).

        Under `more`, a list for each kind of doubt: the number of rows; the first of them, or two, from 1;
        what is wrong with them, after their share; and the share that is worth a warning.
        """

    def notes(self, key: str, task: Task, classes: Classes) -> Iterator[str]:
        """A line for each thing about the classes that the config does not say."""


def reader(kind: str) -> Data:
    """Return `DATA` of a kind of task."""
    return cast(Data, load_part(kind, "data").DATA)


def check_varied(labels: pd.Series, task: Task, key: str, where: str) -> None:
    """DataError if all labels are the same where that is not enough, or no word has one."""
    read = reader(task.type)
    names = read.distinct(labels)
    if len(names) > 1 or (names and not read.least):
        return
    content = f"only {names[0]}" if names else "nothing"
    raise DataError(
        f"{key}.label: {where} has {content} in {len(labels)} rows, but a {task.type} task needs at least "
        f"{read.least or 'one label'}"
    )
