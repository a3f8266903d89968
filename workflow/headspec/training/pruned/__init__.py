"""Training of runs whose heads are pruned to a number."""
