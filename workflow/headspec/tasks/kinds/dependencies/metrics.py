"""Metrics of dependencies: labelled and unlabelled attachment."""

from headspec.tasks.kinds.words.unit_metrics import share

METRICS = {"las": share("LAS"), "uas": share("UAS", 1)}
"""What is counted.

label_values: words; `prediction_values` of the guess
prediction_values: words with the right head and relation, and with the right head
"""
