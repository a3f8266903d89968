"""Names of what is pruned where listed heads are judged."""

#: no head; the listed ones; as many that matter most for all tasks together; random ones of the same layers
NONE, LISTED, SHARED, RANDOM = "none", "listed", "shared", "random"
