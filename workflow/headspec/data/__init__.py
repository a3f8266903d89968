"""Data of tasks, from sources to tables: texts, labels, splits, pairs, few-shot draws, prediction files."""
