"""Correlation of dissociation with task similarity over pairs of tasks (Li et al. 2023).

The k (k - 1) / 2 pairs of k tasks are not independent: a task that is easily disturbed is so in all its
pairs. Permutation tests (Mantel 1967; QAP, Hubert & Schultz 1976) permute the labels of tasks in one of two
matrices, rows and columns together, and count how often the matrices agree at least as well. A matrix is
represented by the vector of its pairs, in the order of `itertools.combinations`.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import POOLED
from headspec.seeds import derive
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: maximum number of tasks for an exact test: 8! = 40,320 relabellings
EXACT = 8
#: number of random relabellings for more tasks
RANDOM = 9_999
#: smaller differences between correlations are rounding errors
TOLERANCE = 1e-9


def renamings(k: int, seed: int) -> Indices:
    """Return permutations (permutations, k) of k tasks, the identity first; see `relabellings`."""
    if k <= EXACT:
        return np.array(list(itertools.permutations(range(k))), dtype=np.intp)
    identity = np.arange(k)
    drawn = np.random.default_rng(seed).permuted(np.tile(identity, (RANDOM, 1)), axis=1)
    return np.vstack([identity, drawn])


def relabellings(k: int, seed: int) -> tuple[Indices, bool]:
    """Return permutations (permutations, pairs) of pairs that relabel k tasks, and whether they are all.

    x[relabelled] is the vector of pairs x under every relabelling; the first row is the identity. Up to eight
    tasks have all k! relabellings; for more, `RANDOM` are drawn with `seed`.
    """
    tasks, exact = renamings(k, seed), k <= EXACT
    first, second = np.triu_indices(k, 1)
    pair = np.zeros((k, k), dtype=np.intp)
    pair[first, second] = pair[second, first] = np.arange(len(first))
    return pair[tasks[:, first], tasks[:, second]], exact


def _unit(values: Floats, least: float = TOLERANCE) -> Floats:
    """Return vectors (..., n) scaled to length 1; nan where their length is at most `least`."""
    norm = np.linalg.norm(values, axis=-1, keepdims=True)
    unit: Floats = np.divide(values, norm, out=np.full_like(values, np.nan), where=norm > least)
    return unit


def standardised(values: Floats) -> Floats:
    """Return `values` (n,) centred and scaled to length 1; nan if they are constant."""
    values = _unit(values, 0)
    return _unit(values - values.mean())


def matrix_correlations(x: Floats, y: Floats, relabelled: Indices) -> Floats:
    """Return Pearson's r (permutations,) of x (n,), under every relabelling of its tasks, and y (n,).

    The first value is that of x itself. All are nan if x or y is constant.
    """
    return standardised(x)[relabelled] @ standardised(y)


def partial_correlations(x: Floats, y: Floats, held: Floats, relabelled: Indices) -> Floats:
    """Return the partial r (permutations,) of x and y given `held` (n,), by double semi-partialling.

    The residuals of x given `held` are relabelled, and y is regressed on them and on `held` (Dekker,
    Krackhardt & Snijders 2007), which preserves the relations of x with `held` and of y with `held`. The
    statistic is the partial r; theirs, the t of the regression coefficient, is a monotonic function of it.

    The first value is that of x itself. Others are nan if `held` fully explains the relabelled residuals. All
    are nan if `held`, or the residuals of x or y, are constant, or there are fewer than four pairs.
    """
    if len(held) < 4:
        return np.full(len(relabelled), np.nan)
    given = standardised(held)

    def residuals(values: Floats) -> Floats:  # values and residuals have mean 0
        return _unit(values - (values @ given)[..., None] * given)

    return residuals(residuals(standardised(x))[relabelled]) @ residuals(standardised(y))


def mantel_p(statistics: Floats) -> float:
    """Return the two-sided p: the share of statistics (permutations,) at least as far from 0 as the first.

    The first, of the identity, counts, as do ties and undefined statistics (nan), which are not evidence. p
    is nan if the first is undefined.
    """
    if np.isnan(statistics[0]):
        return float("nan")
    return float(np.mean(~(np.abs(statistics) < np.abs(statistics[0]) - TOLERANCE)))


def paired(
    similarity: pd.DataFrame, combined: pd.DataFrame, paradigms: Mapping[str, str], method: str
) -> pd.DataFrame:
    """Return similarity and dissociation for every model, measure and pair of tasks, in this order.

    They are means over subjects in the table 'similarity', and over the two tasks of a mixture in 'combined'.
    `paradigms` has the input paradigm of each task, in the order of mixtures' names. Columns are model,
    measure, mixture, same_paradigm, similarity (nan where missing), similarity_low, similarity_high,
    dissociation, ci_low, ci_high, at_chance and left_out. If the unpruned model is at chance in any pair of a
    task, all pairs of this task are left out, because Mantel tests relabel whole tasks.
    """
    pairs = list(itertools.combinations(paradigms, 2))
    names = {frozenset(pair): "+".join(pair) for pair in pairs}
    same = {"+".join((a, b)): paradigms[a] == paradigms[b] for a, b in pairs}
    means = similarity[similarity["subject"].isna()]
    mixtures = [names[frozenset(pair)] for pair in zip(means["task_a"], means["task_b"], strict=True)]
    means = means.assign(mixture=mixtures)
    means = means.rename(columns={"ci_low": "similarity_low", "ci_high": "similarity_high"})
    x = means[["model", "measure", "mixture", "similarity", "similarity_low", "similarity_high"]]
    combined = combined[(combined["method"] == method) & combined["mixture"].isin(same)]
    y = combined[combined["task"] == "mean"]
    y = y[["model", "mixture", "dissociation", "ci_low", "ci_high", "at_chance"]]
    every = itertools.product(means["model"].unique(), means["measure"].unique(), same.items())
    rows = pd.DataFrame(
        [(model, measure, *pair) for model, measure, pair in every],
        columns=["model", "measure", "mixture", "same_paradigm"],
    )
    merged = rows.merge(x, "left", ["model", "measure", "mixture"]).merge(y, "left", ["model", "mixture"])
    nothing = combined[combined["unpruned_at_chance"].eq(True) & combined["task"].isin(paradigms)]
    unlearnt = nothing.groupby("model")["task"].agg(set).to_dict()
    tasks = {mixture: pair for pair, mixture in names.items()}
    left = [
        not tasks[mixture].isdisjoint(unlearnt.get(model, ()))
        for model, mixture in zip(merged["model"], merged["mixture"], strict=True)
    ]
    return merged.assign(at_chance=merged["at_chance"].eq(True), left_out=np.array(left, dtype=bool))


CORRELATION = Schema(
    {"model": TEXT, "measure": TEXT, "n_pairs": INT, "pearson_r": FLOAT, "spearman_r": FLOAT,
     "slope": FLOAT, "intercept": FLOAT, "p_mantel": FLOAT, "p_mantel_spearman": FLOAT, "partial_r": FLOAT,
     "p_partial": FLOAT, "permutations": INT, "exact": FLAG},
    keys=2,
    about={
        "model": "name of the model, or `pooled`: all, each standardised on its own",
        "n_pairs": "pairs of tasks with both values, none [unpruned at chance](statistics.md#at-chance)",
        "pearson_r": "correlation of a pair's mean D with its similarity",
        "spearman_r": "the same of ranks",
        "slope": "least squares, D on similarity",
        "intercept": "least squares, D on similarity",
        "p_mantel": "their Mantel tests",
        "p_mantel_spearman": "their Mantel tests",
        "partial_r": "correlation with the input paradigm held constant",
        "p_partial": "its Mantel test, by double semi-partialling",
        "permutations": "renamings of the tasks tried",
        "exact": "whether these are all",
    },
)  # fmt: skip

#: permutation test: its columns in the table 'correlation', r and p
TESTS = {
    "pearson": ("pearson_r", "p_mantel"),
    "spearman": ("spearman_r", "p_mantel_spearman"),
    "partial": ("partial_r", "p_partial"),
}


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1, with mean ranks for ties; scipy.stats is slow to import."""
    return np.asarray(pd.Series(values).rank())


def _statistics(pairs: pd.DataFrame, relabelled: NDArray[np.intp]) -> dict[str, Floats]:
    """Return r (permutations,) of each test under every relabelling of tasks, for a model and measure.

    It is nan with fewer than three pairs, or if a pair lacks a value.
    """
    x, y = pairs["similarity"].to_numpy(dtype=float), pairs["dissociation"].to_numpy(dtype=float)
    if len(x) < 3 or np.isnan(x + y).any():
        return {test: np.full(len(relabelled), np.nan) for test in TESTS}
    held = pairs["same_paradigm"].to_numpy(dtype=float)
    return {
        "pearson": matrix_correlations(x, y, relabelled),
        "spearman": matrix_correlations(_ranks(x), _ranks(y), relabelled),
        "partial": partial_correlations(x, y, held, relabelled),
    }


def _row(statistics: Mapping[str, Floats], exact: bool) -> dict[str, Any]:
    """Return the columns of the permutation tests; null where undefined."""
    row: dict[str, Any] = {}
    for test, (r, p) in TESTS.items():
        row |= {r: statistics[test][0], p: mantel_p(statistics[test])}
    if not np.isnan(row["pearson_r"]):
        row |= {"permutations": len(statistics["pearson"]), "exact": exact}
    return row


def _line(pairs: pd.DataFrame, r: float) -> dict[str, float]:
    """Return slope and intercept of the least-squares line; empty if r is nan."""
    if np.isnan(r):
        return {}
    slope = r * pairs["dissociation"].std() / pairs["similarity"].std()
    return {
        "slope": slope,
        "intercept": pairs["dissociation"].mean() - slope * pairs["similarity"].mean(),
    }


def correlation(pairs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the table `correlation`: dissociation against each measure of similarity, over pairs of tasks.

    `pairs` are from `paired`; n_pairs counts those that have both values. All other values are null if a pair
    lacks one, because permutation tests need complete matrices; for fewer than three pairs; and if similarity
    or dissociation is constant. The partial correlation is also null for three pairs, and if the paradigm is
    the same for all pairs, or fully explains similarity or dissociation. Pairs that are left out do not
    count.

    With several models there are also rows for the model `POOLED`. x and y are standardised within each
    model: r is the mean of the models' r, the slope is r and the intercept 0. A permutation relabels the
    tasks in the same way in all models: models that learn the same tasks are not independent replications,
    and separate relabellings would make p too small. Values are null if they are null for any model; n_pairs
    is the sum over models of the pairs that none leaves out. `seed` is for random relabellings of more than
    eight tasks.
    """
    of_tasks = functools.cache(lambda k: relabellings(k, derive(seed, "correlation", "relabellings")))

    def tested(learnt: pd.DataFrame) -> tuple[dict[str, Floats], bool, int]:
        """Return statistics, whether they are exact, and the number of pairs, for one model and measure."""
        relabelled, exact = of_tasks(round((1 + math.sqrt(1 + 8 * len(learnt))) / 2))  # k (k - 1) / 2 pairs
        count = int(learnt[["similarity", "dissociation"]].notna().all(axis=1).sum())
        return _statistics(learnt, relabelled), exact, count

    rows: list[dict[str, Any]] = []
    for measure, measured in pairs.groupby("measure"):
        blocks = []
        left_out = measured.loc[measured["left_out"], "mixture"]
        for model, compared in measured.groupby("model"):
            learnt = compared[~compared["left_out"]]
            statistics, exact, count = tested(learnt)
            row = {"model": model, "measure": measure, "n_pairs": count} | _row(statistics, exact)
            rows.append(row | _line(learnt, row["pearson_r"]))
            common = learnt[~learnt["mixture"].isin(left_out)]
            blocks.append((statistics, exact, count) if len(common) == len(learnt) else tested(common))
        if len(blocks) > 1:
            means = {test: np.mean([block[test] for block, *_ in blocks], axis=0) for test in TESTS}
            pooled, count = _row(means, blocks[0][1]), sum(count for *_, count in blocks)
            line = {"slope": pooled["pearson_r"], "intercept": 0 * pooled["pearson_r"]}
            rows.append({"model": POOLED, "measure": measure, "n_pairs": count} | pooled | line)
    frame = pd.DataFrame(rows, columns=list(CORRELATION.columns))
    return frame.astype({"n_pairs": "Int32", "permutations": "Int32", "exact": "boolean"})
