"""Gradient similarity: whether two tasks pull a shared encoder in the same direction."""

from headspec.similarity.traits import Traits, cosine


def gradient(a: Traits, b: Traits) -> float:
    """Cosine between the gradients of the tasks' mean losses at the same encoder weights (Du et al. 2018).

    The encoder has its pretrained weights, where the training of every task started; each task has the
    classifier of its single-task model. Negative if learning one task hurts the other.
    """
    return cosine(a["gradient"], b["gradient"])
