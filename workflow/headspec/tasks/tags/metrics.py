"""Metrics of tags."""

from headspec.tasks.words.unit_metrics import share

METRICS = {"word_accuracy": share("accuracy of words")}
"""What is counted.

label_values: words; right and all words of the guess
prediction_values: right words, and all
"""
