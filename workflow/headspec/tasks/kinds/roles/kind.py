"""Semantic roles of given predicates."""

from headspec.tasks.kinds.words.kind import Words

KIND = Words("the arguments of given predicates", ["predicate", "roles"], ("role_f1",))
