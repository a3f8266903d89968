"""Metrics of constituents."""

from headspec.tasks.kinds.words.unit_metrics import f1

METRICS = {"bracket_f1": f1("F1 of brackets")}
"""What is counted.

label_values: gold units; right and all units of the guess
prediction_values: right and all predicted units
"""
