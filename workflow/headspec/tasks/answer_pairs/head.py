"""Which of two answers to a prompt is right, by cross-entropy restricted to the two."""

from headspec.tasks.continuations.head import Pair

HEAD = Pair
