"""Common parts of tasks on words."""
