"""TaskEmb: whether two tasks' losses are sensitive to the same parameters."""

from headspec.similarity.traits import Traits, cosine


def fisher(a: Traits, b: Traits) -> float:
    """Cosine of the fine-tuned models' diagonal empirical Fisher information (TaskEmb; Vu et al. 2020)."""
    return cosine(a["fisher"], b["fisher"])


def head_fisher(a: Traits, b: Traits) -> float:
    """The same for the gates on attention heads: one number per head instead of one per weight."""
    return cosine(a["head_fisher"], b["head_fisher"])
