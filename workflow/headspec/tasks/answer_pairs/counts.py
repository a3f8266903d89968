"""Tokens of prompts that answers follow, as planning counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.tasks.texts.counts import Counts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headspec.config.sections.task import Task


class AnswerCounts(Counts):
    """Answers of one letter stand for the answers in columns."""

    labels = ('[" a", " b"]',)

    def scored(self, task: Task, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
        return 2


COUNTS = AnswerCounts()
