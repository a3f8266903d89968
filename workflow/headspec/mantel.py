"""Permutation tests of two matrices over the same tasks (Mantel 1967; QAP, Hubert & Schultz 1976).

The k (k - 1) / 2 pairs of k tasks are not independent observations: a task that is easily disturbed
is so in all of its pairs. Exchangeable are the tasks: the test gives them other names in one of the
two matrices, rows and columns together, and asks how often the matrices then agree as well.
A matrix is the vector of its pairs, in the order of `itertools.combinations`.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: up to this many tasks, 8! = 40,320 ways to name them, all are tried
EXACT = 8
#: random ways beyond that
RANDOM = 9_999
#: correlations that differ by less are equal but for rounding
TOLERANCE = 1e-9


def relabellings(k: int, seed: int) -> tuple[Indices, bool]:
    """Where each pair of k tasks goes when the tasks are renamed.

    Returns
    -------
    (permutations, k (k - 1) / 2), bool
        A matrix of pairs x, renamed in every way, is x[relabellings]; the first row leaves it as it
        is. Whether these are all k! ways, for up to eight tasks, or random ones drawn with `seed`.
    """
    exact = k <= EXACT
    if exact:
        tasks = np.array(list(itertools.permutations(range(k))), dtype=np.intp)
    else:
        same = np.arange(k)
        drawn = np.random.default_rng(seed).permuted(np.tile(same, (RANDOM, 1)), axis=1)
        tasks = np.vstack([same, drawn])
    first, second = np.triu_indices(k, 1)
    pair = np.zeros((k, k), dtype=np.intp)
    pair[first, second] = pair[second, first] = np.arange(len(first))
    return pair[tasks[:, first], tasks[:, second]], exact


def _unit(values: Floats, least: float = TOLERANCE) -> Floats:
    """Vectors (..., n) scaled to length 1; nan where they are not longer than `least`."""
    norm = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.divide(values, norm, out=np.full_like(values, np.nan), where=norm > least)


def standardised(values: Floats) -> Floats:
    """`values` (n,) centred and scaled to length 1; nan where they are constant."""
    values = _unit(values, 0)
    return _unit(values - values.mean())


def correlations(x: Floats, y: Floats, relabelled: Indices) -> Floats:
    """Pearson r of x (n,), with its tasks renamed in every way (permutations, n), and y (n,).

    The first of the (permutations,) values is that of x as it is. All nan where x or y is constant.
    """
    return standardised(x)[relabelled] @ standardised(y)


def partial_correlations(x: Floats, y: Floats, held: Floats, relabelled: Indices) -> Floats:
    """Partial r of x and y given `held` (n,), under double semi-partialling.

    What `held` does not explain of x is renamed, and y is regressed on this and on `held` (Dekker,
    Krackhardt & Snijders 2007), which keeps the relations of x with `held` and of y with `held`. Their
    statistic is the t of the regression coefficient, sqrt(n - 3) r / sqrt(1 - r^2) of the partial
    correlation r; it rises with r, so to compare the one is to compare the other.

    Returns
    -------
    (permutations,)
        The first is that of x as it is. A later one is nan where `held` explains all of the
        renamed residuals. All nan where `held`, or what it leaves of x or y, is constant, and for
        fewer than four pairs, which leave the regression no degree of freedom.
    """
    if len(held) < 4:
        return np.full(len(relabelled), np.nan)
    basis = np.stack([np.full_like(held, len(held) ** -0.5), standardised(held)], axis=-1)  # (n, 2)

    def rest(values: Floats) -> Floats:
        return _unit(values - (values @ basis) @ basis.T)

    return rest(rest(standardised(x))[relabelled]) @ rest(standardised(y))


def p_value(statistics: Floats) -> float:
    """Two-sided p: the part of the statistics (permutations,) that are as far from 0 as the first.

    The first, of the names as they are, counts; so do ties, and permutations without a value,
    which are no evidence. nan where the first has no value.
    """
    if np.isnan(statistics[0]):
        return float("nan")
    return float(np.mean(~(np.abs(statistics) < np.abs(statistics[0]) - TOLERANCE)))
