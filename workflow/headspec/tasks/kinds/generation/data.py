"""Texts of prompts, each with a reference answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from headspec.data.sources.columns import check_plain
from headspec.tasks.data import check_varied
from headspec.tasks.kinds.texts.data import Texts
from headspec.text_values import as_text

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys


class Generation(Texts):
    least = "two answers"
    several = True

    def classes(self, task: TaskKeys, labels: pd.Series) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return rows labelled by their answers; a text without one is emptied, so that it is left out."""
        stored = frame[str(task.label)]
        check_plain(stored, f"{key}.label", where)
        answers = stored.map(lambda value: value if isinstance(value, str) else as_text(value))
        rows = self.texts(frame, task, key, where).assign(label=answers.where(stored.notna(), ""))
        check_varied(rows["label"], task, key, where)
        return rows.assign(text_a=rows["text_a"].where(rows["label"].str.strip() != "", ""))


DATA = Generation()
