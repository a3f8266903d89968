"""Permutation tests of two matrices over the same tasks (Mantel 1967; QAP, Hubert & Schultz 1976).

The k (k - 1) / 2 pairs of k tasks are not independent: a task that is easily disturbed is so in all of its
pairs. The test permutes the labels of tasks in one of the two matrices, rows and columns together, and counts
how often the matrices agree as well as before. A matrix is the vector of its pairs, in the order of
`itertools.combinations`.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: most tasks for an exact test: 8! = 40,320 relabellings
EXACT = 8
#: random relabellings for more tasks
RANDOM = 9_999
#: smaller differences between correlations are rounding errors
TOLERANCE = 1e-9


def relabellings(k: int, seed: int) -> tuple[Indices, bool]:
    """Permutations of pairs that relabel k tasks, (permutations, k (k - 1) / 2), and whether they are exact.

    x[relabelled] is the vector of pairs x under every relabelling; the first row is the identity. Up to eight
    tasks have all k! relabellings (exact), more have random ones drawn with `seed`.
    """
    exact = k <= EXACT
    if exact:
        tasks = np.array(list(itertools.permutations(range(k))), dtype=np.intp)
    else:
        identity = np.arange(k)
        drawn = np.random.default_rng(seed).permuted(np.tile(identity, (RANDOM, 1)), axis=1)
        tasks = np.vstack([identity, drawn])
    first, second = np.triu_indices(k, 1)
    pair = np.zeros((k, k), dtype=np.intp)
    pair[first, second] = pair[second, first] = np.arange(len(first))
    return pair[tasks[:, first], tasks[:, second]], exact


def _unit(values: Floats, least: float = TOLERANCE) -> Floats:
    """Vectors (..., n) scaled to length 1; nan where their length is at most `least`."""
    norm = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.divide(values, norm, out=np.full_like(values, np.nan), where=norm > least)


def standardised(values: Floats) -> Floats:
    """`values` (n,) centred and scaled to length 1; nan if they are constant."""
    values = _unit(values, 0)
    return _unit(values - values.mean())


def correlations(x: Floats, y: Floats, relabelled: Indices) -> Floats:
    """Pearson r (permutations,) of x (n,) under every relabelling of its tasks, and y (n,).

    The first is that of x itself. All are nan if x or y is constant.
    """
    return standardised(x)[relabelled] @ standardised(y)


def partial_correlations(x: Floats, y: Floats, held: Floats, relabelled: Indices) -> Floats:
    """Partial r (permutations,) of x and y given `held` (n,), under double semi-partialling.

    The residuals of x given `held` are relabelled, and y is regressed on them and on `held` (Dekker,
    Krackhardt & Snijders 2007), which preserves the relations of x with `held` and of y with `held`. The
    partial r is compared, of which their statistic, the t of the regression coefficient, is a monotonic
    function.

    The first value is that of x itself. Another is nan if `held` fully explains the relabelled residuals. All
    are nan if `held`, or the residuals of x or y, are constant, and for fewer than four pairs.
    """
    if len(held) < 4:
        return np.full(len(relabelled), np.nan)
    basis = np.stack([np.full_like(held, len(held) ** -0.5), standardised(held)], axis=-1)  # (n, 2)

    def residuals(values: Floats) -> Floats:
        return _unit(values - (values @ basis) @ basis.T)

    return residuals(residuals(standardised(x))[relabelled]) @ residuals(standardised(y))


def p_value(statistics: Floats) -> float:
    """Two-sided p: share of the statistics (permutations,) at least as far from 0 as the first.

    The first, of the identity, counts; so do ties and undefined statistics (nan), which are no evidence. The
    p is nan if the first is undefined.
    """
    if np.isnan(statistics[0]):
        return float("nan")
    return float(np.mean(~(np.abs(statistics) < np.abs(statistics[0]) - TOLERANCE)))
