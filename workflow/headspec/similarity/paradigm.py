"""Whether two tasks take the same input: one text, or a pair of texts."""

from headspec.similarity.traits import Traits


def paradigm(a: Traits, b: Traits) -> float:
    """1 for the same input paradigm, 0 for different ones (Li et al. 2023)."""
    return float(a["paradigm"] == b["paradigm"])
