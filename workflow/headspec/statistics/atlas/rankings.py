"""Names of the rankings of heads that statistics and figures treat apart, and of their ends."""

#: importance for one task (Eq. 4), of all tasks together, and computed again after every step of pruning
IMPORTANCE, IMPORTANCE_ALL, RESCORED = "importance", "importance_all", "rescored"
#: a random order
RANDOM = "random"
#: which heads of a ranking are pruned first: those with the largest values, or with the smallest
TOP, BOTTOM = "top", "bottom"
