"""Scores, intervals and tests from predictions. No module here imports torch."""
