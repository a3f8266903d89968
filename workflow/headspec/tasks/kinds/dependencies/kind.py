"""The syntactic head of every word, and their relation."""

from headspec.tasks.kinds.words.kind import Words

KIND = Words("the head and the relation of each word", ["head", "deprel"], ("las", "uas"))
