"""Pairs of texts, the first of which should be likelier."""

FAMILY = "continuations"
