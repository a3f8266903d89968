"""Metrics of constituents."""

from headspec.tasks.words.unit_metrics import f1

METRICS = {"bracket_f1": f1("F1 of brackets")}
"""What is counted.

label_values: number of brackets; of the best guess without reading, right ones, and all
prediction_values: right brackets, and predicted ones
"""
