"""Gradient similarity: whether two tasks pull a shared encoder in the same direction."""

from headspec.similarity import Traits, cosine


def gradient(a: Traits, b: Traits) -> float:
    """Cosine of the gradients of the tasks' mean losses, at the same encoder weights (Du et al. 2018).

    Negative where learning one task makes the other worse.
    """
    return cosine(a["gradient"], b["gradient"])
