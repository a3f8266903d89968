"""Dissociation scores of pruning matrices, and kinds of dissociation.

Entry (j, i) of a pruning matrix is the metric of the **evaluated** task i when the heads of task j are
pruned. Dissociation compares entries of a column: the same task with different heads pruned. The paper's
released code compares entries of a row, which mixes tasks and their metrics.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: lower and upper bounds of intervals
Bounds = tuple[ArrayLike, ArrayLike]


def relative(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Return relative performance P(i | prune j) = M_i(prune j) / M_i(base) (Li et al. 2023, Eq. 5).

    `matrix` (..., k, k) is the metric of evaluated task i (last axis) when the heads of task j are pruned,
    `base` (..., k) that without pruning. P is (..., k, k), and nan where the base is not above 0.
    """
    matrix, base = np.asarray(matrix, dtype=float), np.asarray(base, dtype=float)[..., None, :]
    shape = np.broadcast_shapes(matrix.shape, base.shape)
    quotient: Floats = np.divide(matrix, base, out=np.full(shape, np.nan), where=base > 0)
    return quotient


def dissociation(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Return D_i, the mean over j != i of P(i | prune j), minus P(i | prune i) (Eq. 6 and 7), (..., k).

    Arguments and nan are as in `relative`. Values are fractions: 0.10 is the paper's 10 %. Raises ValueError
    if there are fewer than two tasks.
    """
    performance = relative(matrix, base)
    same_task = np.diagonal(performance, axis1=-2, axis2=-1)
    k = same_task.shape[-1]
    if k < 2:
        raise ValueError(f"dissociation needs at least two tasks, not {k}")
    d: Floats = (performance - same_task[..., None, :]).sum(axis=-2) / (k - 1)
    return d


def net_dissociation(matrix: ArrayLike, base: ArrayLike) -> Floats:
    """Return D of each task net of the strength of its list of heads, (..., k); nan with two tasks.

    A list that hurts every task more raises D of its own task, and lowers that of the others as much. In a
    two-way table without replication (additive effects of lists and of tasks, plus an extra cost of a task's
    own list), this is the least-squares estimate of the extra cost, from the diagonal of the double-centred
    matrix. Its mean over tasks equals that of D.

    Arguments are as in `relative`.
    """
    performance = relative(matrix, base)
    k = performance.shape[-1]
    if k < 3:
        return np.full(performance.shape[:-1], np.nan)
    centred = performance - performance.mean(axis=-1, keepdims=True)
    centred -= centred.mean(axis=-2, keepdims=True)
    own = -np.diagonal(centred, axis1=-2, axis2=-1)
    net: Floats = (own - own.sum(axis=-1, keepdims=True) / (k * (k - 1))) * k / (k - 2)
    return net


#: case of a mixture with an unpruned model at chance
CHANCE = "chance"


def case(
    d: ArrayLike,
    pointwise: Bounds | None = None,
    simultaneous: Bounds | None = None,
    mean: float | None = None,
) -> str:
    """Return the kind of dissociation that the k tasks of a mixture show: double, single, inverted or none.

    It is double if every pointwise interval lies above 0: requiring all of them is already conservative
    (intersection-union test, Berger 1982). It is single if it is not double, but a simultaneous interval,
    which corrects for picking one of several, lies above 0, and so does the interval of the mean: a list that
    hurts all tasks more than others do raises D of its task, but not the mean. It is inverted if no value is
    above 0, and a simultaneous interval lies below: pruning a task's heads hurts it *less* than pruning those
    of others, so importance is wrong.

    Parameters
    ----------
    d : (k,), dissociation of each task
    pointwise : lower and upper bounds (k,) at the nominal level; the values themselves by default
    simultaneous : bounds (k,) that all hold at once at the nominal level; `pointwise` by default
    mean : lower bound of the mean over tasks, at the nominal level; the mean of `d` by default
    """
    d = np.asarray(d, dtype=float)
    pointwise = pointwise or (d, d)
    low, high = (np.asarray(bounds) for bounds in simultaneous or pointwise)
    if (np.asarray(pointwise[0]) > 0).all():
        return "double"
    if (low > 0).any() and (d.mean() if mean is None else mean) > 0:
        return "single"
    return "inverted" if (high < 0).any() and (d <= 0).all() else "none"


def is_distinct(case: str, mean: float, threshold: float) -> bool:
    """Return whether a double dissociation is *distinct*: its mean reaches `threshold` (Shallice 1988)."""
    return case == "double" and bool(mean >= threshold)
