"""Values of table columns."""

#: task, or metric, of rows with the mean over tasks
MEAN = "mean"
#: which heads are pruned: none, random ones, listed ones, those most important for all tasks together
NONE, RANDOM, LISTED, SHARED = "none", "random", "listed", "shared"
#: rankings by importance: for one task (Eq. 4), for all tasks, and recomputed after every step of pruning
IMPORTANCE, IMPORTANCE_ALL, RESCORED = "importance", "importance_all", "rescored"
#: which heads of a ranking are pruned first: those with the largest values, or with the smallest
TOP, BOTTOM = "top", "bottom"
#: random heads of the same layers as those of a ranking
SAME_LAYERS = "same_layers"
#: what takes the place of closed heads besides the `MEAN` of others: nothing, or another example's vectors
ZERO, RESAMPLE = "zero", "resample"
#: predictors of gains besides measures of similarity: numbers of examples, all measures, and task effects
SIZE, ALL, BASELINE = "size", "all", "baseline"
#: the pruning method that closes no head
WHOLE = "whole"
