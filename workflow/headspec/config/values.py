"""Values as text, for comparison with a config's labels or for paths, and values of table columns."""

import re


def as_text(value: object) -> str:
    """Return a stored value as text; 1, 1.0 and "1" give the same text, as do true, True and TRUE."""
    text = re.sub(r"^([+-]?\d+)\.0+$", r"\1", str(value).strip())
    return text.lower() if text.lower() in ("true", "false") else text


def named(value: float) -> str:
    """Return a number of the config as part of a path, with six significant digits."""
    return f"{value:g}"


def kept_by(value: object) -> list[str]:
    """Return the values that a filter (one value or a list) keeps, as text."""
    return [as_text(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


#: task, or metric, of rows with the mean over tasks
MEAN = "mean"
#: which heads are pruned: none, random ones, listed ones, those most important for all tasks together
NONE, RANDOM, LISTED, SHARED = "none", "random", "listed", "shared"
#: rankings by importance: for one task (Eq. 4), for all tasks, and recomputed after every step of pruning
IMPORTANCE, IMPORTANCE_ALL, RESCORED = "importance", "importance_all", "rescored"
#: which heads of a ranking are pruned first: those with the largest values, or with the smallest
TOP, BOTTOM = "top", "bottom"
#: what takes the place of closed heads besides the `MEAN` of others: nothing, or another example's vectors
ZERO, RESAMPLE = "zero", "resample"
#: predictors of gains besides measures of similarity: numbers of examples, all measures, and task effects
SIZE, ALL, BASELINE = "size", "all", "baseline"
#: the pruning method that closes no head
WHOLE = "whole"
