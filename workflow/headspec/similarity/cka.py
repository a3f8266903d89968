"""CKA: how closely one model's representations match a rotation of the other's."""

import math

import numpy as np

from headspec.similarity.traits import Traits


def cka(a: Traits, b: Traits) -> float:
    """Linear CKA, ||Y'X||^2 / (||X'X|| ||Y'Y||) of centred vectors X, Y (Kornblith et al. 2019).

    Invariant to rotating, scaling or shifting either model's vectors; nan if a model's vectors are all equal.
    Over n sentences, unrelated models score not 0 but about d / (n + d), for vectors that vary equally in d
    independent directions: compare pairs of tasks with each other, not with 0.
    """
    x, y = (v - v.mean(axis=0, dtype=float) for v in (a["vectors"], b["vectors"]))
    norm = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / norm) if norm > 0 else math.nan
