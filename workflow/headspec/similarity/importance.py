"""Whether two tasks, each learnt alone, find the same attention heads important."""

import math

from headspec.metrics import score
from headspec.similarity import Traits


def importance(a: Traits, b: Traits) -> float:
    """Spearman over heads of the tasks' importance."""
    return score("spearman", a["importance"].ravel(), b["importance"].ravel())


def top_heads(a: Traits, b: Traits) -> float:
    """Jaccard index of the tasks' most important heads; nan where there are none."""
    either = (a["top"] | b["top"]).sum()
    return float((a["top"] & b["top"]).sum() / either) if either else math.nan
