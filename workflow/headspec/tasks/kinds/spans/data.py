"""Sentences and spans of their words, or of characters of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headspec.tasks.kinds.spans import positions
from headspec.tasks.kinds.words.base import Units
from headspec.tasks.kinds.words.data import Reader, Sentences

if TYPE_CHECKING:
    import pandas as pd

    from headspec.config.sections.task import Task


class Spans(Sentences):
    """Sentences with typed spans."""

    def reader(self, task: Task, stored: Sequence[pd.Series]) -> Reader:
        by_words = super().reader(task, stored)
        if not positions.in_characters(*stored):
            return by_words

        def by_characters(text: Any, words: Sequence[str], spans: Any) -> Units:
            return by_words(text, words, positions.to_words(text, spans) if isinstance(text, str) else spans)

        return by_characters


DATA = Spans()
