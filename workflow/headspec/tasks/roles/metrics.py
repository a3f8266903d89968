"""Metrics of semantic roles."""

from headspec.tasks.words.unit_metrics import f1

METRICS = {"role_f1": f1("F1 of roles")}
"""What is counted.

label_values: number of arguments; of the best guess without reading, right ones, and all
prediction_values: right arguments, and predicted ones
"""
