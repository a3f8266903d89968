"""What the types of tasks are: names, metrics, columns."""
