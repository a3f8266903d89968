"""Scores of texts, from a column of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.data.sources import columns
from headspec.errors import DataError
from headspec.tasks.kinds.texts.data import Texts

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


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


DATA = Regression()
