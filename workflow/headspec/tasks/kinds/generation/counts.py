"""Tokens of prompts whose answers are written, for planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.tasks.kinds.texts.counts import Counts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headspec.tasks.keys import TaskKeys


class GenerationCounts(Counts):
    """Counts with one letter in place of each answer in the column."""

    labels = ("a", "b")

    def scored(self, task: TaskKeys, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
        return 2


COUNTS = GenerationCounts()
