"""Spans of words."""

FAMILY = "words"
