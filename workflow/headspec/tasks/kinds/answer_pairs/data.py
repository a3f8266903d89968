"""Texts with a right and a wrong answer each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd

from headspec.config.as_text import as_text
from headspec.data.sources import columns
from headspec.tasks.kinds.continuations.data import Pairs, check

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


class AnswerPairs(Pairs):
    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        """Return rows labelled by both answers, which `continuations.data.answers` reads."""
        texts, names = self.texts(frame, task, key, where), self.columns(task)
        for name in names:
            columns.check_plain(frame[name], f"{key}.label", where)
        # text stays unstripped, because spaces before an answer are part of it
        pairs = frame[names].map(lambda value: value if isinstance(value, str) else as_text(value))
        pairs = pairs.where(frame[names].notna(), "")
        check(pairs, names, key, where)
        written = [json.dumps(pair, ensure_ascii=False) for pair in pairs.to_numpy().tolist()]
        return texts.assign(label=pd.Series(written, index=frame.index))


DATA = AnswerPairs()
