"""Tasks: what all kinds of tasks share, and the kinds."""
