"""Texts without labels, whose own tokens are predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.tasks.kinds.texts.data import Texts

if TYPE_CHECKING:
    import pandas as pd

    from headspec.config.sections.task import Task


class Unlabelled(Texts):
    """Texts, each with an empty label."""

    def columns(self, task: Task) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        return self.texts(frame, task, key, where).assign(label="")


DATA = Unlabelled()
