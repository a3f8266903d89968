"""Task data, from source to tables: texts, labels, splits, pairs, few-shot draws, prediction files."""
