"""Pairs of texts, which serve as continuations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.tasks.kinds.continuations.data import Pairs, check

if TYPE_CHECKING:
    import pandas as pd

    from headspec.config.sections.task import Task


class MinimalPairs(Pairs):
    def columns(self, task: Task) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        check(texts[["text_a", "text_b"]], [task.text_a, str(task.text_b)], key, where)
        return texts.assign(label="")


DATA = MinimalPairs()
