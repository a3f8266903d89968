"""Texts and the texts that the model should write, and metrics of these.

BLEU (Papineni et al. 2002), chrF (Popovic 2015), as in sacrebleu (Post 2018, aclanthology.org/W18-6319), and
the share of texts that equal the reference follow from counts that add up over sentences (`counted`). Labels
have the counts of the best constant prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.data import characters
from headspec.data.sources import columns
from headspec.tasks.data import check_varied
from headspec.tasks.kinds.texts.data import Texts
from headspec.tasks.kinds.translation.kind import KEYS, UNSPACED

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys

#: number of target texts that decide the script of a translation
SAMPLE = 1000
#: ratio of both sides' lengths, relative to the usual one, from which a row is doubtful (Moses'
#: clean-corpus-n.perl drops nine words to one)
UNLIKE = 9
#: share of such rows that deserves a warning; there are at most two in 29,000 rows of Multi30k
MISALIGNED = 0.01


class Translation(Texts):
    least = "two target texts"
    several = True

    def texts(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return sources and targets."""
        texts = super().texts(frame, task, key, where)
        return texts.assign(label=columns.text_column(frame, self.columns(task)[0], f"{key}.label", where))

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        rows = self.texts(frame, task, key, where)
        check_varied(rows["label"], task, key, where)
        # a source without a target is of no use
        return rows.assign(text_a=rows["text_a"].where(rows["label"].str.strip() != "", ""))

    def classes(self, task: TaskKeys, labels: pd.Series) -> dict[str, Any]:
        """Return how targets are written."""
        language = characters.unspaced(labels.head(SAMPLE))
        more = {UNSPACED: language} if language else {}
        return {"type": task.type, **{key: getattr(task, key) for key in KEYS}} | more

    def row_quality(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Return rows whose ratio of lengths is far from the usual one."""
        lengths = [rows[column].str.strip().str.len().clip(lower=1) for column in ("text_a", "label")]
        ratio = (lengths[0] / lengths[1]).map(np.log)
        unlike = (ratio - ratio.median()).abs() > np.log(UNLIKE)
        first = [int(row) + 1 for row in unlike.index[unlike][:1]]
        words = f"have a source or a target {UNLIKE} times as long, relative to the other, as most rows"
        return {"more": [[int(unlike.sum()), first, words, MISALIGNED]]}


DATA = Translation()
