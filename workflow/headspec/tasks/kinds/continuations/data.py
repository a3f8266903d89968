"""Pairs of continuations, the first of which should be likelier for a language model.

Their metrics are of the log-likelihood of the right continuation minus that of the wrong one. The constant
prediction is no difference: a difference of 0, and half of the pairs right.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.data.sources.columns import check_plain
from headspec.errors import DataError, listing
from headspec.tasks.kinds.texts.data import Texts
from headspec.text_values import as_text

if TYPE_CHECKING:
    import pandas as pd

    from headspec.tasks.keys import TaskKeys

#: the continuations, in order
CLASSES = ["right", "wrong"]


class Pairs(Texts):
    """Pairs, which have no classes."""

    def classes(self, task: TaskKeys, labels: pd.Series) -> list[str]:
        return []


#: largest share of pairs that are left out because they are no two texts; published sets have a few
FEW = 0.1


def differing(pairs: pd.DataFrame, names: list[str], key: str, where: str) -> pd.Series:
    """Return which pairs are two different texts, bool (n,); DataError if more than `FEW` are not."""
    empty = (pairs.map(str.strip) == "").any(axis=1)
    wrong = empty | (pairs.iloc[:, 0] == pairs.iloc[:, 1])
    if wrong.sum() > FEW * len(wrong):
        row: Any = wrong.idxmax()
        what = "an empty text" if empty[row] else "the same text"
        raise DataError(
            f"{key}: row {row + 1} of {where} has {what} in {listing(names)}, expected two different ones "
            f"({wrong.sum()} of {len(wrong)} rows; up to {100 * FEW:g} % are left out)"
        )
    return ~wrong


def _kept(rows: pd.DataFrame, kept: pd.Series) -> pd.DataFrame:
    """Return the rows of pairs that are kept; `attrs` counts the others."""
    rows = rows[kept]
    rows.attrs |= {"same": int((~kept).sum())} if not kept.all() else {}
    return rows


def answers(label: str) -> list[str]:
    """Return the right and the wrong answer of an example."""
    return [str(answer) for answer in json.loads(label)]


class MinimalPairs(Pairs):
    def columns(self, task: TaskKeys) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        kept = differing(texts[["text_a", "text_b"]], [task.text_a, str(task.text_b)], key, where)
        return _kept(texts.assign(label=""), kept)


MINIMAL_PAIRS_DATA = MinimalPairs()


class AnswerPairs(Pairs):
    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return rows labelled by both answers, which `continuations.data.answers` reads."""
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
        """Return the right answer of each example (it may have several wrong answers)."""
        return labels.map(lambda label: answers(label)[0])


ANSWER_PAIRS_DATA = AnswerPairs()
