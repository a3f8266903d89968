"""Metrics of dependencies: labelled and unlabelled attachment."""

from headspec.tasks.words.unit_metrics import share

METRICS = {"las": share("LAS"), "uas": share("UAS", 1)}
"""What is counted.

label_values: number of words; of the best guess without reading, the same as of a prediction
prediction_values: words with the right head and relation, and with the right head
"""
