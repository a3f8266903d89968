"""Constituents of sentences."""

FAMILY = "words"
