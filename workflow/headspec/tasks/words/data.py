"""What is read of tasks on words: sentences, and their units as labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.tasks.texts.data import Texts
from headspec.tasks.words import reading

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.tasks.classes import Classes
    from headspec.tasks.words.base import WordTask


class Sentences(Texts):
    """Sentences of words that are annotated.

    Parameters
    ----------
    annotated : how units are read from cells
    least : as of `headspec.tasks.data.Data`
    """

    def __init__(self, annotated: WordTask, least: str = "") -> None:
        self.annotated, self.least = annotated, least

    def texts(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        return self.rows(frame, task, key, where).drop(columns="label")

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        return reading.rows(self.annotated, frame, task, key, where)

    def distinct(self, labels: pd.Series) -> list[str]:
        return reading.label_names(labels)

    def classes(self, task: Task, labels: pd.Series) -> dict[str, Any]:
        return {"type": task.type, "labels": reading.label_names(labels)}

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        assert isinstance(classes, dict)
        reading.check_labels(labels, classes["labels"], key, where)
