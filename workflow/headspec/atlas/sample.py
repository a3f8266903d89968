"""The examples on which all measures of heads are taken, in the same folds."""

import numpy as np
import pandas as pd

from headspec.heads import ranking
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

HEAD_FOLDS = Schema(
    {"task": TEXT, "measure": TEXT, "fold": INT, "layer": INT, "head": INT, "value": FLOAT, "n": INT}, keys=5
)
"""Table `head_folds`: a row for each task, measure, fold and head.
runs/{model}/{mixture}/{method}/seed{seed}/atlas/attention.parquet,
runs/{model}/{mixture}/{method}/seed{seed}/atlas/relevance.parquet,
runs/{model}/{mixture}/{method}/seed{seed}/atlas/ablation.parquet

fold: twentieth of the examples, the same for all measures and runs
"""
FOLDS = 20


def sampled(task: str, available: int, wanted: int) -> np.ndarray:
    """Return rows of the examples of `task` to measure, at most `wanted` of the `available` ones.

    Their order is random, and the same for every model, seed and measure; row i of it is in fold
    i % FOLDS. Differences between measures, runs and seeds are therefore paired by fold.
    """
    rng = np.random.default_rng(derive(0, "atlas examples", task))
    return rng.permutation(available)[:wanted]


def fold_means(task: str, measure: str, values: np.ndarray) -> pd.DataFrame:
    """Return means over the examples of each fold, as rows of the schema `HEAD_FOLDS`.

    `values` are (n, layers, heads), in the order of `sampled`; nan where a head or its value does not exist.
    """
    return ranking.fold_means(FOLDS, value=values).assign(task=task, measure=measure)
