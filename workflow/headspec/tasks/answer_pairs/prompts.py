"""Prompts that answers of the data follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.tasks.continuations.data import CLASSES, answers
from headspec.tasks.texts.prompts import Answered, Prompts

if TYPE_CHECKING:
    from headspec.data.prepare import Prepared

#: distinct pairs of answers that are read while planning; jobs read all
PAIRS = 300


class OfAnswers(Answered):
    continues = True

    def labels(self, classes: list[str]) -> list[str]:
        return CLASSES

    def scored(self, encoder: Prompts, key: str) -> str:
        return f"{key}.type"

    def longest(self, encoder: Prompts, prepared: Prepared, key: str) -> int:
        text = encoder.filled("text", "text")
        pairs = prepared.train["label"].drop_duplicates().head(PAIRS).map(answers)
        return max(len(encoder.following(text, each, f"{key}.label")) for pair in pairs for each in pair)


PROMPTS = OfAnswers()
