"""Whether the same attention heads matter to two tasks, each learnt alone."""

import math

from headspec.similarity.traits import Traits
from headspec.tasks.metrics import score
from headspec.tasks.regression.metrics import SPEARMAN


def importance(a: Traits, b: Traits) -> float:
    """Spearman correlation over heads of their importance for the two tasks."""
    return score(SPEARMAN, a["importance"], b["importance"])


def top_heads(a: Traits, b: Traits) -> float:
    """Jaccard index of the tasks' sets of most important heads; nan if both are empty."""
    either = (a["top"] | b["top"]).sum()
    return float((a["top"] & b["top"]).sum() / either) if either else math.nan
