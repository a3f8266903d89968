"""Dissociation scores of pruning matrices, and the kinds of dissociation.

Entry (j, i) of a pruning matrix is the metric of the **evaluated** task i when the heads of task j
are pruned. Dissociation compares entries within a column: the same task with different heads pruned.
The code released with the paper compares within a row instead, which mixes tasks and their metrics.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: lower and upper bounds of intervals
Bounds = tuple[ArrayLike, ArrayLike]


def relative(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Relative performance P(i | prune j) = M_i(prune j) / M_i(base) (Li et al. 2023, Eq. 5).

    Parameters
    ----------
    matrix : (..., k, k)
        Metric of evaluated task i (last axis) when the heads of task j are pruned.
    base : (..., k)
        Metric of task i without pruning.

    Returns
    -------
    (..., k, k)
        nan where the base is not positive, so that a ratio has no meaning.
    """
    matrix, base = np.asarray(matrix, dtype=float), np.asarray(base, dtype=float)[..., None, :]
    shape = np.broadcast_shapes(matrix.shape, base.shape)
    return np.divide(matrix, base, out=np.full(shape, np.nan), where=base > 0)


def scores(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Dissociation D_i = mean over j != i of P(i | prune j), minus P(i | prune i) (Eq. 6 and 7).

    Parameters and nan are as in `relative`.

    Returns
    -------
    (..., k)
        Fractions: 0.10 is the paper's 10 %.

    Raises
    ------
    ValueError
        There are fewer than two tasks.
    """
    performance = relative(matrix, base)
    same_task = np.diagonal(performance, axis1=-2, axis2=-1)
    k = same_task.shape[-1]
    if k < 2:
        raise ValueError(f"dissociation needs at least two tasks, not {k}")
    return (performance - same_task[..., None, :]).sum(axis=-2) / (k - 1)


#: the case of a mixture of which some unpruned model is at chance
CHANCE = "chance"


def case(d: ArrayLike, pointwise: Bounds | None = None, simultaneous: Bounds | None = None) -> str:
    """The kind of dissociation that the k tasks of a mixture show.

    A value is *clearly* positive or negative if its interval excludes 0.

    Parameters
    ----------
    d : (k,)
        Dissociation of each task.
    pointwise : two arrays (k,), optional
        Lower and upper bounds of the tasks' intervals, each at the nominal level; by default, the
        values themselves.
    simultaneous : two arrays (k,), optional
        Bounds of the tasks' simultaneous intervals, which all hold at once at the nominal level;
        `pointwise` by default.

    Returns
    -------
    {'double', 'single', 'inverted', 'none'}
        double: every task is clearly positive by its pointwise interval; requiring all of them is
        already conservative (intersection-union test, Berger 1982). single: not double, and some task
        is clearly positive by its simultaneous interval, which corrects for picking one of several.
        inverted: no value is above 0, and some task is clearly negative by its simultaneous interval.
        Pruning a task's heads then hurts it *less* than pruning those of others: the importance
        estimate is wrong. none: otherwise.
    """
    d = np.asarray(d, dtype=float)
    pointwise = pointwise or (d, d)
    low, high = (np.asarray(bounds) for bounds in simultaneous or pointwise)
    if (np.asarray(pointwise[0]) > 0).all():
        return "double"
    if (low > 0).any():
        return "single"
    return "inverted" if (high < 0).any() and (d <= 0).all() else "none"


def is_distinct(case: str, mean: float, threshold: float) -> bool:
    """Whether a double dissociation is *distinct*: its mean reaches `threshold` (Shallice 1988)."""
    return case == "double" and bool(mean >= threshold)
