"""Measures of task similarity: texts, representations, parameters, heads and brain responses."""
