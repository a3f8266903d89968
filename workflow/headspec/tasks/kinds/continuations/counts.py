"""Tokens of pairs of continuations, for planning."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headspec.tasks.kinds.texts.counts import Counts

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from headspec.tasks.keys import TaskKeys


class PairCounts(Counts):
    texts_read = 2

    def prompts(
        self, task: TaskKeys, texts: pd.DataFrame | None, tokenizer: PreTrainedTokenizerBase | None
    ) -> pd.DataFrame | None:
        """Return the first text, and the second without the shared beginning."""
        if texts is None:
            return None
        words = zip(texts["text_a"].str.split(), texts["text_b"].str.split(), strict=True)
        return texts.assign(text_b=[" ".join(b[len(os.path.commonprefix([a, b])) :]) for a, b in words])

    def scored(self, task: TaskKeys, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
        return length


MINIMAL_PAIRS_COUNTS = PairCounts()


class AnswerCounts(Counts):
    """Counts with one letter in place of each answer in columns."""

    labels = ('[" a", " b"]',)

    def scored(self, task: TaskKeys, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
        return 2


ANSWER_PAIRS_COUNTS = AnswerCounts()
