"""Common parts of tasks on texts."""
