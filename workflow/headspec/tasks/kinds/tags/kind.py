"""A label for every word, such as its part of speech."""

from headspec.tasks.kinds.words.kind import Words

KIND = Words("a tag of each [word](words.md#types)", ["upos"], ("word_accuracy",))
