"""Values of table columns that stages, statistics and figures share."""

#: task, or metric, of rows with the mean over tasks
MEAN = "mean"
#: which heads are pruned: none, random ones, those of a list, those most important for all tasks together
NONE, RANDOM, LISTED, SHARED = "none", "random", "listed", "shared"
#: rankings by importance: for one task (Eq. 4), for all tasks, and computed again after every step of pruning
IMPORTANCE, IMPORTANCE_ALL, RESCORED = "importance", "importance_all", "rescored"
#: which heads of a ranking are pruned first: those with the largest values, or with the smallest
TOP, BOTTOM = "top", "bottom"
#: what predicts gains besides measures of similarity: numbers of examples, all measures, and effects of tasks
SIZE, ALL, BASELINE = "size", "all", "baseline"
#: the pruning method that closes no head
WHOLE = "whole"
