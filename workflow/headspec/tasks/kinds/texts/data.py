"""Texts and pairs of texts from columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from headspec.data.sources import columns
from headspec.tasks.data import Data, check_varied

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


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
