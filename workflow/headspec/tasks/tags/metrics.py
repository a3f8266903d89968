"""Metrics of tags."""

from headspec.tasks.words.unit_metrics import share

METRICS = {"word_accuracy": share("accuracy of words")}
"""What is counted.

label_values: number of words; of the best guess without reading, right words, and all
prediction_values: right words, and all
"""
