"""Common parts of tasks on pairs of continuations."""
