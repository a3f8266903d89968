"""The constituents of sentences."""

from headspec.tasks.kinds.words.kind import Words

KIND = Words("the constituents of sentences", ["tree"], ("bracket_f1",))
