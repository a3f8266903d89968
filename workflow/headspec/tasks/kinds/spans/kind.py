"""Spans of words with a type, such as named entities."""

from headspec.tasks.kinds.words.kind import Words

KIND = Words("typed spans of words", ["names"], ("span_f1",))
