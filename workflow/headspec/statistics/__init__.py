"""Scores, intervals and tests from predictions, without torch."""
