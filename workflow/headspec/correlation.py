"""Whether tasks that are alike dissociate less: correlation over pairs of tasks (Li et al. 2023)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import rankdata

from headspec.mantel import correlations, p_value, partial_correlations, relabellings
from headspec.seeds import derive
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

# dissociation against similarity over pairs of tasks; partial: input paradigm held constant; slope and
# intercept of all models pooled: of standardised values
CORRELATION = Schema(
    {"model": TEXT, "measure": TEXT, "n_pairs": INT, "pearson_r": FLOAT, "spearman_r": FLOAT,
     "slope": FLOAT, "intercept": FLOAT, "p_pearson": FLOAT, "p_mantel": FLOAT, "p_spearman": FLOAT,
     "p_mantel_spearman": FLOAT, "partial_r": FLOAT, "p_partial": FLOAT, "permutations": INT,
     "exact": FLAG},
    keys=2,
)  # fmt: skip

Floats = NDArray[np.float64]

#: what the table says where a model's name could stand
POOLED = "pooled"

#: test of the table 'correlation': columns of its r and its permutation p
TESTS = {
    "pearson": ("pearson_r", "p_mantel"),
    "spearman": ("spearman_r", "p_mantel_spearman"),
    "partial": ("partial_r", "p_partial"),
}


def paired(
    similarity: pd.DataFrame, combined: pd.DataFrame, paradigms: Mapping[str, str], method: str
) -> pd.DataFrame:
    """Similarity and dissociation of every pair of tasks.

    Parameters
    ----------
    similarity : table 'similarity'
        Means over subjects are used.
    combined : table 'combined'
        The mean over the tasks of each pair's mixture is used.
    paradigms : task: its input paradigm
        The tasks whose pairs are mixtures, in the order in which the mixtures name them.
    method : which runs' dissociation

    Returns
    -------
    DataFrame
        Rows for every model and measure of `similarity`, and in these for every pair of tasks in order;
        columns model, measure, mixture, same_paradigm, similarity (nan where there is none),
        similarity_low, similarity_high, dissociation, ci_low, ci_high, floor.
    """
    pairs = list(itertools.combinations(paradigms, 2))
    names = {frozenset(pair): "+".join(pair) for pair in pairs}
    same = {"+".join((a, b)): paradigms[a] == paradigms[b] for a, b in pairs}
    means = similarity[similarity["subject"].isna()]
    mixtures = [names[frozenset(pair)] for pair in zip(means["task_a"], means["task_b"], strict=True)]
    means = means.assign(mixture=mixtures)
    means = means.rename(columns={"ci_low": "similarity_low", "ci_high": "similarity_high"})
    x = means[["model", "measure", "mixture", "similarity", "similarity_low", "similarity_high"]]
    y = combined[(combined["method"] == method) & (combined["task"] == "mean")]
    y = y[["model", "mixture", "dissociation", "ci_low", "ci_high", "floor"]]
    every = itertools.product(means["model"].unique(), means["measure"].unique(), same.items())
    rows = pd.DataFrame(
        [(model, measure, *pair) for model, measure, pair in every],
        columns=["model", "measure", "mixture", "same_paradigm"],
    )
    merged = rows.merge(x, "left", ["model", "measure", "mixture"]).merge(y, "left", ["model", "mixture"])
    return merged.assign(floor=merged["floor"].eq(True))


def ordinary_p(r: float, n: int) -> float:
    """Two-sided p of a correlation of n independent pairs of values: that of t with n - 2 degrees.

    The tail of t as an incomplete beta function, which also takes |r| = 1. For ranks an approximation.
    """
    return float(betainc((n - 2) / 2, 0.5, 1 - min(r**2, 1)))


def _statistics(part: pd.DataFrame, relabelled: NDArray[np.intp]) -> dict[str, Floats]:
    """Test: its r under every renaming of the tasks (permutations,), of one model and measure."""
    x, y = part["similarity"].to_numpy(dtype=float), part["dissociation"].to_numpy(dtype=float)
    if len(x) < 3 or np.isnan(x + y).any():
        return {test: np.full(len(relabelled), np.nan) for test in TESTS}
    held = part["same_paradigm"].to_numpy(dtype=float)
    return {
        "pearson": correlations(x, y, relabelled),
        "spearman": correlations(rankdata(x), rankdata(y), relabelled),
        "partial": partial_correlations(x, y, held, relabelled),
    }


def _row(statistics: Mapping[str, Floats], exact: bool) -> dict[str, Any]:
    """The columns of the permutation tests; null what has no value."""
    row: dict[str, Any] = {}
    for test, (r, p) in TESTS.items():
        row |= {r: statistics[test][0], p: p_value(statistics[test])}
    if not np.isnan(row["pearson_r"]):
        row |= {"permutations": len(statistics["pearson"]), "exact": exact}
    return row


def _line(part: pd.DataFrame, r: float, rank_r: float) -> dict[str, float]:
    """Least squares of dissociation on similarity, and ordinary p-values; nothing where r is nan."""
    if np.isnan(r):
        return {}
    slope = r * part["dissociation"].std() / part["similarity"].std()
    return {
        "slope": slope,
        "intercept": part["dissociation"].mean() - slope * part["similarity"].mean(),
        "p_pearson": ordinary_p(r, len(part)),
        "p_spearman": ordinary_p(rank_r, len(part)),
    }


def correlation(pairs: pd.DataFrame, tasks: int, seed: int) -> pd.DataFrame:
    """Correlation of dissociation with each measure of similarity, over the pairs of tasks.

    Parameters
    ----------
    pairs : DataFrame
        Result of `paired`.
    tasks : int
        Number of tasks whose pairs they are.
    seed : int
        Of the random renamings of more than eight tasks; all models and measures see the same ones.

    Returns
    -------
    table 'correlation'
        A row for each model and measure. n_pairs counts the pairs with both values. All else is null
        where one is missing, because the permutation tests need whole matrices; where there are
        fewer than three pairs; and where similarity or dissociation is constant. The partial
        correlation is also null where the paradigm is the same for all pairs or explains all of
        either. p_pearson and p_spearman take pairs for independent, which they are not; they
        are there to be compared with other studies, to judge by are those of permutations.

        Of two models or more, also rows of model `POOLED`. A model is a block: x and y are
        standardised within it, so that r is the mean of the models' r, the slope is r and the
        intercept 0. In the permutation tests one renaming of the tasks holds in all models at
        once: tasks are what is exchangeable. Renamings of each model's own would count models
        that learn the same tasks as independent replications and make p too small. For the same
        reason there is no ordinary p. Null where a model has none; n_pairs sums over models.
    """
    relabelled, exact = relabellings(tasks, derive(seed, "correlation", "relabellings"))
    rows: list[dict[str, Any]] = []
    for measure, of_measure in pairs.groupby("measure"):
        blocks = []
        for model, part in of_measure.groupby("model"):
            blocks.append(_statistics(part, relabelled))
            count = int(part[["similarity", "dissociation"]].notna().all(axis=1).sum())
            row = {"model": model, "measure": measure, "n_pairs": count} | _row(blocks[-1], exact)
            rows.append(row | _line(part, row["pearson_r"], row["spearman_r"]))
        if len(blocks) > 1:
            pooled = _row({test: np.mean([block[test] for block in blocks], axis=0) for test in TESTS}, exact)
            count = sum(row["n_pairs"] for row in rows[-len(blocks) :])
            line = {"slope": pooled["pearson_r"], "intercept": 0 * pooled["pearson_r"]}
            rows.append({"model": POOLED, "measure": measure, "n_pairs": count} | pooled | line)
    frame = pd.DataFrame(rows, columns=list(CORRELATION.columns))
    return frame.astype({"n_pairs": "Int32", "permutations": "Int32", "exact": "boolean"})
