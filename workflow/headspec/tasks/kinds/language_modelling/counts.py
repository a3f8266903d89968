"""Tokens of texts that are continued, for planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.tasks.kinds.texts.counts import Counts, mean

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from headspec.tasks.keys import TaskKeys


class TextCounts(Counts):
    def prompt_tokens(
        self, tokenizer: PreTrainedTokenizerBase | None, most: int, task: TaskKeys, texts: pd.DataFrame | None
    ) -> tuple[int | None, int]:
        """Count the texts themselves."""
        return mean(tokenizer, most, texts), 0

    def scored(self, task: TaskKeys, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
        return length


COUNTS = TextCounts()
