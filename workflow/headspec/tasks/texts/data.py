"""What is read of tasks on texts, with defaults that most kinds share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.data.sources import columns
from headspec.tasks.data import check_varied

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.tasks.classes import Classes


class Texts:
    """Texts or pairs of texts, each with a label (`headspec.tasks.data.Data`)."""

    least = ""
    several = False

    def columns(self, task: Task) -> list[str]:
        return [task.label] if isinstance(task.label, str) else list(task.label)

    def texts(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        text_a = columns.text_column(frame, task.text_a, f"{key}.text_a", where)
        text_b = (
            None if task.text_b is None else columns.text_column(frame, task.text_b, f"{key}.text_b", where)
        )
        return pd.DataFrame({"text_a": text_a, "text_b": text_b})

    def labels(self, stored: pd.Series, task: Task, key: str, where: str) -> pd.Series:
        """The labels of rows, as text, from a column of text or numbers."""
        raise NotImplementedError

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        stored = columns.with_lists(frame[str(task.label)])
        columns.check_plain(stored, f"{key}.label", where)
        label = self.labels(stored, task, key, where)
        check_varied(label, task, key, where)
        return texts.assign(label=label)

    def distinct(self, labels: pd.Series) -> list[str]:
        return labels.unique().tolist()

    def classes(self, task: Task, labels: pd.Series) -> Classes:
        return None

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        pass

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        return pd.Series("", index=rows.index)

    def doubts(self, rows: pd.DataFrame) -> dict[str, Any]:
        return {}

    def notes(self, key: str, task: Task, classes: Classes) -> Iterator[str]:
        return iter(())
