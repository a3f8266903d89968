"""Gradient similarity: whether two tasks pull a shared encoder in the same direction."""

from headspec.similarity import Traits, cosine


def gradient(a: Traits, b: Traits) -> float:
    """Cosine of the gradients of the tasks' mean losses, at the same encoder weights (Du et al. 2018).

    The weights are the pretrained ones, from which every task began, each under the classifier that the
    task learnt alone. Negative where learning one task makes the other worse.
    """
    return cosine(a["gradient"], b["gradient"])
