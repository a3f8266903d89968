"""Metrics of spans."""

from headspec.tasks.words.unit_metrics import f1

METRICS = {"span_f1": f1("F1 of spans")}
"""What is counted.

label_values: number of spans; of the best guess without reading, right ones, and all
prediction_values: right spans, and predicted ones
"""
