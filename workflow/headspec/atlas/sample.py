"""Samples of examples, means of measures over folds, and the specific importance computed from these."""

import numpy as np
import pandas as pd

from headspec.config.values import IMPORTANCE
from headspec.heads import ranking
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

HEAD_FOLDS = Schema(
    {"task": TEXT, "measure": TEXT, "fold": INT, "layer": INT, "head": INT, "value": FLOAT, "n": INT},
    keys=5,
    paths=("{run}/atlas/attention.parquet", "{run}/atlas/relevance.parquet", "{run}/atlas/ablation.parquet"),
    about={
        "fold": "twentieth of the examples, the same for all measures and runs",
    },
)
FOLDS = 20


def sampled(task: str, available: int, wanted: int) -> np.ndarray:
    """Return the rows (n,) of the examples of `task` to measure: at most `wanted` of the `available` rows.

    Their order is random, but the same for every model, seed and measure; the i-th row is in fold i % FOLDS.
    Differences between measures, runs and seeds are therefore paired by fold.
    """
    rng = np.random.default_rng(derive(0, "atlas examples", task))
    return rng.permutation(available)[:wanted]


def measure_folds(task: str, measure: str, values: np.ndarray) -> pd.DataFrame:
    """Return means over the examples of each fold, as rows of the schema `HEAD_FOLDS`.

    `values` are (n, layers, heads), in the order of `sampled`; nan where a head or its value does not exist.
    """
    fold = np.arange(len(values)) % FOLDS
    return ranking.fold_means(fold, value=values).assign(task=task, measure=measure)


def specific(heads: pd.DataFrame) -> pd.DataFrame:
    """Return the specific importance of every head, as rows of the schema `HEAD_FOLDS`.

    It is a head's share of the importance (Li et al. 2023, Eq. 4) of all heads in a fold, minus its mean
    share for the other tasks of the mixture, so that a head's values sum to 0 over tasks; in a run on one
    task, it is the share. `heads` are rows of `HEAD_FOLDS`, of which the measure 'importance' is used.
    """
    rows = heads[heads["measure"] == IMPORTANCE].reset_index(drop=True)
    share = rows["value"] / rows.groupby(["task", "fold"])["value"].transform("sum")
    by_head = share.groupby([rows["fold"], rows["layer"], rows["head"]])
    others = by_head.transform("count") - 1
    return rows.assign(value=share - (by_head.transform("sum") - share) / others.clip(lower=1))
