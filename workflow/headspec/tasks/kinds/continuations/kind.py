"""Common settings of kinds of tasks on two continuations."""

from headspec.tasks.kind import Kind


class Pairs(Kind):
    metrics = ("pair_accuracy", "logit_difference")
    beside = frozenset({"logit_difference"})  # it has no scale
    trained = needs_prompt = pooled = False
    refuses = frozenset({"transfer"})
