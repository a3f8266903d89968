"""Semantic roles."""

FAMILY = "words"
