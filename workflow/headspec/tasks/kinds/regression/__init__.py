"""Scores of texts."""
