"""Prompts followed by answers from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headspec.tasks.kinds.continuations.data import CLASSES, answers
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.prompts import Prompt, Prompting

if TYPE_CHECKING:
    import pandas as pd

    from headspec.data.prepare import Prepared

#: distinct pairs of answers read while planning; jobs read all
PAIRS = 300


class AnswerPairs(Prompts):
    """Prompts followed by the right or the wrong answer of an example."""

    continues = True
    scored = Prompting.scored

    def labels(self, classes: list[str]) -> list[str]:
        return CLASSES

    def prompts(self, table: pd.DataFrame, classes: Sequence[str]) -> list[Prompt]:
        rows = zip(*(table[name] for name in ("text_a", "text_b", "label", "example")), strict=True)
        return [
            self.prompt(a, b, answers(label), f"{self.key}.label: example {example}")
            for a, b, label, example in rows
        ]

    def longest_answer(self, prepared: Prepared) -> int:
        text = self.filled("text", "text")
        pairs = prepared.train["label"].drop_duplicates().head(PAIRS).map(answers)
        return max(len(self.following(text, each, f"{self.key}.label")) for pair in pairs for each in pair)


PROMPTS = AnswerPairs
