"""Dissociation scores of pruning matrices, and the cases that they make.

A pruning matrix holds in row j and column i the metric of the **evaluated** task i when the heads
of task j are pruned. Dissociation compares within a column: the same task, other heads pruned. The
code released with the paper compares within a row instead, which mixes tasks of different metrics.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: lower and upper ends of intervals
Ends = tuple[ArrayLike, ArrayLike]


def relative(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Relative performance P(i | prune j) = M_i(prune j) / M_i(base) (Li et al. 2023, Eq. 5).

    Parameters
    ----------
    matrix : (..., k, k)
        Metric of evaluated task i (last axis) when the heads of task j are pruned.
    base : (..., k)
        Metric of task i with no head pruned.

    Returns
    -------
    (..., k, k)
        nan where the base is not positive, of which nothing can be a part.
    """
    matrix, base = np.asarray(matrix, dtype=float), np.asarray(base, dtype=float)[..., None, :]
    shape = np.broadcast_shapes(matrix.shape, base.shape)
    return np.divide(matrix, base, out=np.full(shape, np.nan), where=base > 0)


def scores(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Dissociation D_i = mean over j != i of P(i | prune j), less P(i | prune i) (Eq. 6 and 7).

    Parameters and the meaning of nan are those of `relative`; at least two tasks.

    Returns
    -------
    (..., k)
        Fractions: 0.10 is the paper's 10 %.
    """
    parts = relative(matrix, base)
    own = np.diagonal(parts, axis1=-2, axis2=-1)
    if own.shape[-1] < 2:
        raise ValueError(f"dissociation needs at least two tasks, not {own.shape[-1]}")
    return (parts - own[..., None, :]).sum(axis=-2) / (own.shape[-1] - 1)


def case(d: ArrayLike, each: Ends | None = None, together: Ends | None = None) -> str:
    """Which kind of dissociation the k tasks of a mixture show.

    A value is *clearly* positive or negative when its interval does not reach 0.

    Parameters
    ----------
    d : (k,)
        Dissociation of each task.
    each : two arrays (k,), optional
        Lower and upper ends of the tasks' intervals at the plain level; without, the values count as
        their own.
    together : two arrays (k,), optional
        Ends of the tasks' simultaneous intervals, which all hold at once with the plain level's
        probability; `each` by default.

    Returns
    -------
    {'double', 'single', 'inverted', 'none'}
        double: every task clearly positive, at the plain level, for all of many being so is already the
        stricter test (Berger 1982). single: not double, and some task clearly positive by its
        simultaneous interval: one of many is so by chance. inverted: no value above 0, and some
        clearly below by its simultaneous interval, so that pruning a task's own heads hurts it *less*
        than pruning others': the importance estimate is wrong. none: all else.
    """
    d = np.asarray(d, dtype=float)
    each = each or (d, d)
    low, high = (np.asarray(ends) for ends in together or each)
    if (np.asarray(each[0]) > 0).all():
        return "double"
    if (low > 0).any():
        return "single"
    return "inverted" if (high < 0).any() and (d <= 0).all() else "none"


def is_distinct(case: str, mean: float, threshold: float) -> bool:
    """Whether a double dissociation is *distinct*: its mean reaches `threshold` (Shallice 1988)."""
    return case == "double" and bool(mean >= threshold)
