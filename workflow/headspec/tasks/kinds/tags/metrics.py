"""Metrics of tags."""

from headspec.tasks.kinds.words.unit_metrics import share

METRICS = {"word_accuracy": share("accuracy of words")}
"""What is counted.

label_values: gold units; right and all units of the guess
prediction_values: right and all predicted units
"""
