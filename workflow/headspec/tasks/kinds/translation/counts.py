"""Tokens of translations, for planning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headspec.data import characters
from headspec.tasks.kinds.texts.counts import Counts
from headspec.tasks.kinds.translation.encoding import ENCODING

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase


class TranslationCounts(Counts):
    def tokens(
        self, tokenizer: PreTrainedTokenizerBase | None, most: int, task: Any, texts: pd.DataFrame | None
    ) -> tuple[int, int] | None:
        """Count words and marks (source's language and end, target's end) if there is no vocabulary yet."""
        if texts is None:
            return None
        if tokenizer is None:
            counts = [texts[side].map(characters.words).str.len() for side in ("text_a", "label")]
            source, target = (n.clip(upper=most - 1).mean() for n in counts)
            return round(source + 2), round(target + 1)
        classes = ENCODING.completed(tokenizer, {"type": task.type} | vars(task), most, "tasks")
        frame, _ = ENCODING.encode(tokenizer, texts, most, classes)
        return round(frame["input_ids"].str.len().mean()), round(frame["target_ids"].str.len().mean())


COUNTS = TranslationCounts()
