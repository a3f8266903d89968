"""Head importance, the pruning masks derived from it, and evaluation under those masks."""
