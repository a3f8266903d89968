"""Importance of heads by fold and as a map (layers, heads), and the most and least important heads."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.errors import DataError, listing, nearest
from headspec.head_arrays import as_array, existing


def blocks(inputs: Sequence[Hashable], folds: int) -> NDArray[np.intp]:
    """Return the fold of each example, (n,): blocks with nearly equal numbers of distinct inputs, in order.

    Examples with the same input share a fold, since duplicates in two folds would make the folds agree.
    There are no more folds than distinct inputs.
    """
    number, distinct = pd.factorize(pd.Series(list[Any](inputs), dtype=object))
    fold: NDArray[np.intp] = number * min(folds, len(distinct)) // len(distinct)
    return fold


def fold_means(fold: NDArray[np.intp], **values: np.ndarray) -> pd.DataFrame:
    """Return the means over each fold, with a row per fold, layer and existing head.

    `fold` is (n,), from 0 without gaps; `values` maps measures to (n, layers, heads), nan where there is no
    head. Columns are fold, layer, head, n (examples) and `values`.
    """
    exists = existing(next(iter(values.values()))[0])
    sizes = np.bincount(fold)
    members = [fold == number for number in range(len(sizes))]
    number, layer, head = np.nonzero(np.broadcast_to(exists, (len(sizes), *exists.shape)))
    means = {
        name: np.stack([measured[own].mean(axis=0, dtype=float)[exists] for own in members]).ravel()
        for name, measured in values.items()
    }
    return pd.DataFrame({"fold": number, "layer": layer, "head": head, "n": sizes[number], **means})


def importance_map(importance: pd.DataFrame, task: str, column: str = "importance") -> NDArray[np.float64]:
    """Return every head's importance for `task`, (layers, heads), nan where there is no head.

    It is the mean over samples (Li et al. 2023, Eq. 4): the folds of the table `importance` weighted by n.
    `column` is 'importance', or 'fisher' for the Fisher information of the gates. Raises DataError if the
    table lacks the task.
    """
    rows = importance[importance["task"] == task]
    if rows.empty:
        known = importance["task"].unique()
        raise DataError(
            f"importance: no task '{task}'; the table has {listing(known)}.{nearest(task, known)}"
        )
    sums = rows.assign(total=rows[column] * rows["n"]).groupby(["layer", "head"])[["total", "n"]].sum()
    return as_array(sums["total"] / sums["n"])


def joint_importance(maps: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the sum of several tasks' maps (..., layers, heads), each divided by its mean absolute value.

    Losses differ in scale; without the division, the task with the largest gradients would set the ranking.
    """
    total: NDArray[np.float64] = np.sum(
        [values / np.nanmean(np.abs(values), axis=(-2, -1), keepdims=True) for values in maps], axis=0
    )
    return total


def prune_count(fraction: float, heads_total: int) -> int:
    """Return floor(fraction * heads_total), robust to binary rounding: 0.29 of 100 heads is 29."""
    return math.floor(fraction * heads_total + 1e-9)


def top_heads(heads: Any, n: int | float) -> NDArray[np.bool_]:
    """Return the most important heads, bool (layers, heads); ties go to the first head.

    Raises ValueError if there are fewer than `n` heads, the fraction is not between 0 and 1, or scores are
    not (layers, heads).

    Parameters
    ----------
    heads : scores (layers, heads), nan where there is no head; `-scores` for the least important heads
    n : number of heads; or, as a float, a fraction of the existing heads, rounded down

    Examples
    --------
    >>> top_heads(scores, 0.1), top_heads(-scores, 12)
    """
    exists = existing(heads := head_arrays.scores(heads, least=1))
    count = _count(n, int(exists.sum()))
    top = np.zeros(heads.size, dtype=bool)
    top[np.argsort(-heads.ravel(), kind="stable")[:count]] = True
    return top.reshape(heads.shape) & exists


def exclusive_heads(heads: Any, others: Any, n: int | float) -> NDArray[np.bool_]:
    """Return the top heads of one task that are not top heads of another, bool (layers, heads).

    Swapping the tasks gives the same number of heads. Raises ValueError as `top_heads`, or if shapes differ.

    Parameters
    ----------
    heads, others : scores of both tasks, (layers, heads), nan where there is no head
    n : number or fraction of top heads of each, as in `top_heads`

    Examples
    --------
    >>> only = exclusive_heads(scores, others, 0.1)
    """
    top, other = top_heads(heads, n), top_heads(others, n)
    if top.shape != other.shape:
        raise ValueError(f"others: got {other.shape}, expected {top.shape} as of the first scores")
    return top & ~other


def ranked_heads(scores: Any) -> pd.DataFrame:
    """Return a table of heads, the most important first, with columns layer, head and score.

    The first n are those of `top_heads(scores, n)`. Cells without a head are left out.

    Parameters
    ----------
    scores : (layers, heads), nan where there is no head

    Examples
    --------
    >>> ranked_heads(scores).head(10)
    """
    exists = existing(scores := head_arrays.scores(scores, least=1))
    layer, head = np.nonzero(exists.reshape(-1, exists.shape[-1]))
    table = pd.DataFrame({"layer": layer, "head": head, "score": scores[exists]})
    return table.iloc[np.argsort(-scores[exists], kind="stable")].reset_index(drop=True)


def _count(n: Any, total: int) -> int:
    """Return the number of heads, of `total`, for a count or fraction. Raises ValueError if it is neither."""
    number = head_arrays.array(n, "top heads")
    fraction = number.dtype.kind == "f"
    if number.ndim or number.dtype == bool or not 0 <= number <= (1 if fraction else total):
        raise ValueError(f"top heads: got {n}, expected 0 to {total}, or a fraction from 0.0 to 1.0")
    # take the shortest decimal, as the user meant: 0.29 in single precision is slightly less
    return prune_count(float(str(number)), total) if fraction else int(number)


def bottom_heads(heads: NDArray[np.floating], n: int) -> NDArray[np.bool_]:
    """Return the `n` least important heads, bool (layers, heads): the complement of the top heads."""
    exists = existing(heads)
    return exists & ~top_heads(heads, int(exists.sum()) - n)
