"""Pairs of texts, the first of which should be the likelier."""

FAMILY = "continuations"
