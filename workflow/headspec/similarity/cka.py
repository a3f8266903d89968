"""CKA: how much of one model's representations is a rotation of the other's."""

import math

import numpy as np

from headspec.similarity import Traits


def cka(a: Traits, b: Traits) -> float:
    """Linear CKA, ||Y'X||^2 / (||X'X|| ||Y'Y||) of centred vectors X, Y (Kornblith et al. 2019).

    Unchanged when either model rotates, scales or shifts its vectors. nan where all are equal. Of n
    sentences it is not 0 where the models have nothing in common, but about d / (n + d) for vectors that vary
    alike in d independent directions: compare pairs of tasks, not values with 0.
    """
    x, y = (v - v.mean(axis=0, dtype=float) for v in (a["vectors"], b["vectors"]))
    norm = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / norm) if norm > 0 else math.nan
