"""Pairs of continuations, the first of which should be likelier for a language model.

Metrics are based on the log-likelihood of the right continuation minus the wrong one's; chance is 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import as_text
from headspec.data.sources.columns import check_plain
from headspec.errors import DataError, listing
from headspec.tasks.kinds.texts.data import Texts
from headspec.tasks.metrics import Metric, each, mean
from headspec.tasks.metrics import columns as summands

if TYPE_CHECKING:
    import pandas as pd

    from headspec.config.sections.task import Task

#: names of the continuations, in order
CLASSES = ["right", "wrong"]


class Pairs(Texts):
    """Pairs, which have no classes."""

    def classes(self, task: Task, labels: pd.Series) -> list[str]:
        return []


#: maximum share of pairs left out because they are not two different texts; published sets have a few
FEW = 0.1


def differing(pairs: pd.DataFrame, names: list[str], key: str, where: str) -> pd.Series:
    """Return which pairs are two different texts, bool (n,); DataError if more than `FEW` are not."""
    empty = (pairs.map(str.strip) == "").any(axis=1)
    wrong = empty | (pairs.iloc[:, 0] == pairs.iloc[:, 1])
    if wrong.sum() > FEW * len(wrong):
        row: Any = wrong.idxmax()
        what = "an empty text" if empty[row] else "the same text"
        raise DataError(
            f"{key}: row {row + 1} of {where} has {what} in {listing(names)}, expected two that differ "
            f"({wrong.sum()} of {len(wrong)} rows; up to {100 * FEW:g} % are left out)"
        )
    return ~wrong


def _kept(rows: pd.DataFrame, kept: pd.Series) -> pd.DataFrame:
    """Return the pairs that are kept; `attrs` counts the others."""
    rows = rows[kept]
    rows.attrs |= {"same": int((~kept).sum())} if not kept.all() else {}
    return rows


def answers(label: str) -> list[str]:
    """Return the right and the wrong answer of an example."""
    return [str(answer) for answer in json.loads(label)]


class MinimalPairs(Pairs):
    def columns(self, task: Task) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        kept = differing(texts[["text_a", "text_b"]], [task.text_a, str(task.text_b)], key, where)
        return _kept(texts.assign(label=""), kept)


MINIMAL_PAIRS_DATA = MinimalPairs()


class AnswerPairs(Pairs):
    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        """Return rows labelled with both answers, to be read by `continuations.data.answers`."""
        texts, names = self.texts(frame, task, key, where), self.columns(task)
        for name in names:
            check_plain(frame[name], f"{key}.label", where)
        # text stays unstripped, because spaces before an answer are part of it
        pairs = frame[names].map(lambda value: value if isinstance(value, str) else as_text(value))
        pairs = pairs.where(frame[names].notna(), "")
        kept = differing(pairs, names, key, where)
        written = [json.dumps(pair, ensure_ascii=False) for pair in pairs.to_numpy().tolist()]
        return _kept(texts.assign(label=pd.Series(written, index=frame.index)), kept)

    def claims(self, labels: pd.Series) -> pd.Series:
        """Return the right answers; there may be several wrong ones."""
        return labels.map(lambda label: answers(label)[0])


ANSWER_PAIRS_DATA = AnswerPairs()


Floats = NDArray[np.float64]


def _preferred(label: Floats, differences: Floats) -> tuple[Floats, Floats]:
    """Count double: 2 if the right one is likelier, and 1 for ties."""
    return 2 * np.ones((len(label), 1)), summands(np.sign(differences) + 1)


def _differences(label: Floats, differences: Floats) -> tuple[NDArray[Any], Floats]:
    """Return summands of labels, (n, 1), and of differences, (..., n) to (..., n, columns)."""
    return each(label), summands(differences)


METRICS = {
    "pair_accuracy": Metric("pairs right", _preferred, mean, np.zeros_like, worst=np.zeros_like),
    "logit_difference": Metric("logit difference", _differences, mean, np.zeros_like, worst=np.zeros_like),
}
