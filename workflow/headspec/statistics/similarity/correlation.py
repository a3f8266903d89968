"""Correlation of dissociation with task similarity over pairs of tasks (Li et al. 2023)."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betainc

from headspec.config.runs import POOLED
from headspec.seeds import derive
from headspec.statistics.similarity.mantel import correlations, p_value, partial_correlations, relabellings
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

CORRELATION = Schema(
    {"model": TEXT, "measure": TEXT, "n_pairs": INT, "pearson_r": FLOAT, "spearman_r": FLOAT,
     "slope": FLOAT, "intercept": FLOAT, "p_pearson": FLOAT, "p_mantel": FLOAT, "p_spearman": FLOAT,
     "p_mantel_spearman": FLOAT, "partial_r": FLOAT, "p_partial": FLOAT, "permutations": INT,
     "exact": FLAG},
    keys=2,
)  # fmt: skip
"""Table `correlation`: a row for each model and measure.
tables/correlation.parquet

model: name of the model, or `pooled`: all, each standardised on its own
n_pairs: pairs of tasks with both values, none [unpruned at chance](statistics.md#at-chance)
pearson_r: correlation of a pair's mean D with its similarity
spearman_r: the same of ranks
slope, intercept: least squares, D on similarity
p_pearson, p_spearman: p as if pairs were independent, which they are not
p_mantel, p_mantel_spearman: their Mantel tests
partial_r: correlation with the input paradigm held constant
p_partial: its Mantel test, by double semi-partialling
permutations: renamings of the tasks tried
exact: whether these are all
"""

Floats = NDArray[np.float64]

#: permutation test: its columns in the table 'correlation', r and p
TESTS = {
    "pearson": ("pearson_r", "p_mantel"),
    "spearman": ("spearman_r", "p_mantel_spearman"),
    "partial": ("partial_r", "p_partial"),
}


def ordinary_p(r: float, n: int) -> float:
    """Two-sided p of a correlation r of n independent pairs: t test with n - 2 degrees of freedom.

    It is defined at |r| = 1, and approximate for ranks.
    """
    return float(betainc((n - 2) / 2, 0.5, 1 - min(r**2, 1)))


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, the mean rank for equal values; scipy.stats is slow to import."""
    return np.asarray(pd.Series(values).rank())


def _statistics(pairs: pd.DataFrame, relabelled: NDArray[np.intp]) -> dict[str, Floats]:
    """r of each test for every relabelling of the tasks, (permutations,), of one model and measure."""
    x, y = pairs["similarity"].to_numpy(dtype=float), pairs["dissociation"].to_numpy(dtype=float)
    if len(x) < 3 or np.isnan(x + y).any():
        return {test: np.full(len(relabelled), np.nan) for test in TESTS}
    held = pairs["same_paradigm"].to_numpy(dtype=float)
    return {
        "pearson": correlations(x, y, relabelled),
        "spearman": correlations(_ranks(x), _ranks(y), relabelled),
        "partial": partial_correlations(x, y, held, relabelled),
    }


def _row(statistics: Mapping[str, Floats], exact: bool) -> dict[str, Any]:
    """Columns of the permutation tests; null where undefined."""
    row: dict[str, Any] = {}
    for test, (r, p) in TESTS.items():
        row |= {r: statistics[test][0], p: p_value(statistics[test])}
    if not np.isnan(row["pearson_r"]):
        row |= {"permutations": len(statistics["pearson"]), "exact": exact}
    return row


def _line(pairs: pd.DataFrame, r: float, rank_r: float) -> dict[str, float]:
    """Least-squares line of dissociation on similarity, and ordinary p-values; empty if r is nan."""
    if np.isnan(r):
        return {}
    slope = r * pairs["dissociation"].std() / pairs["similarity"].std()
    return {
        "slope": slope,
        "intercept": pairs["dissociation"].mean() - slope * pairs["similarity"].mean(),
        "p_pearson": ordinary_p(r, len(pairs)),
        "p_spearman": ordinary_p(rank_r, len(pairs)),
    }


def correlation(pairs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the table `correlation`: dissociation against each measure of similarity, over pairs of tasks.

    `pairs` are from `headspec.statistics.similarity.paired.paired`; n_pairs counts those that have both
    values. All other values are null if a pair lacks one, because permutation tests need complete matrices;
    for fewer than three pairs; and if similarity or dissociation is constant. The partial correlation is also
    null if the paradigm is the same for all pairs, or explains similarity or dissociation in full. Pairs that
    are left out count nowhere.

    With several models there are also rows of model `POOLED`. x and y are standardised within each model: r
    is the mean of the models' r, the slope is r and the intercept 0. A permutation relabels the tasks the
    same way in all models: models that learn the same tasks are not independent replications, and separate
    relabellings would make p too small. For the same reason there is no ordinary p. Values are null if they
    are for any model; n_pairs is the sum over models, of the pairs that none leaves out. `seed` is for random
    relabellings of more than eight tasks.
    """
    by_tasks = functools.cache(lambda k: relabellings(k, derive(seed, "correlation", "relabellings")))

    def tested(learnt: pd.DataFrame) -> tuple[dict[str, Floats], bool, int]:
        """Statistics, whether they are exact, and the number of pairs, for one model and measure."""
        relabelled, exact = by_tasks(round((1 + math.sqrt(1 + 8 * len(learnt))) / 2))  # k (k - 1) / 2 pairs
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
            rows.append(row | _line(learnt, row["pearson_r"], row["spearman_r"]))
            common = learnt[~learnt["mixture"].isin(left_out)]
            blocks.append((statistics, exact, count) if len(common) == len(learnt) else tested(common))
        if len(blocks) > 1:
            means = {test: np.mean([block[test] for block, *_ in blocks], axis=0) for test in TESTS}
            pooled, count = _row(means, blocks[0][1]), sum(count for *_, count in blocks)
            line = {"slope": pooled["pearson_r"], "intercept": 0 * pooled["pearson_r"]}
            rows.append({"model": POOLED, "measure": measure, "n_pairs": count} | pooled | line)
    frame = pd.DataFrame(rows, columns=list(CORRELATION.columns))
    return frame.astype({"n_pairs": "Int32", "permutations": "Int32", "exact": "boolean"})
