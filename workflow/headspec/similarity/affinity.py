"""Tables of affinity: how much one task, the source, would help another, the target, by single-task runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.tables import FLOAT, TEXT, Schema

SEED_AFFINITY = Schema({"measure": TEXT, "source": TEXT, "target": TEXT, "affinity": FLOAT}, keys=3)
"""Table `seed_affinity`: a row for each measure, source and target.
similarity/{model}/seed{seed}/lookahead.parquet, similarity/{model}/seed{seed}/lookahead-single.parquet,
similarity/{model}/seed{seed}/grad-tag.parquet

measure: `lookahead`, `lookahead-single` or `grad-tag`
affinity: share of the target's loss that the source removes; below 0 if it adds
"""
AFFINITY = Schema(
    {"model": TEXT, "measure": TEXT, "source": TEXT, "target": TEXT, "affinity": FLOAT,
     "between_seeds": FLOAT},
    keys=4,
)  # fmt: skip
"""Table `affinity`: a row for each model, measure, source and target.
tables/affinity.parquet

measure: `lookahead`, `lookahead-single` or `grad-tag`
affinity: the same, mean over seeds
"""


def seed_affinity(measure: str, tasks: Sequence[str], values: NDArray[np.float64]) -> pd.DataFrame:
    """Return the table `seed_affinity` of `values`, (tasks, tasks), source first."""
    rows = [
        (measure, tasks[source], tasks[target], values[source, target])
        for source, target in itertools.permutations(range(len(tasks)), 2)
    ]
    return pd.DataFrame(rows, columns=list(SEED_AFFINITY.columns))


def affinity(model: str, seeds: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the table `affinity` of a model, from tables `seed_affinity`; nan if any seed has nan."""
    keys = list(SEED_AFFINITY.columns)[: SEED_AFFINITY.keys]
    groups = pd.concat(seeds, ignore_index=True).groupby(keys, sort=False)["affinity"]
    means = groups.agg(affinity=lambda values: values.mean(skipna=False), between_seeds="std").reset_index()
    return means.assign(model=model)[list(AFFINITY.columns)]


def both_ways(seed: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """Return similarity as the mean of both directions; columns measure, task_a, task_b, similarity."""
    directed = dict(zip(zip(seed["source"], seed["target"], strict=True), seed["affinity"], strict=True))
    rows = [
        (seed["measure"].iloc[0], a, b, (directed[a, b] + directed[b, a]) / 2)
        for a, b in itertools.combinations(tasks, 2)
    ]
    return pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])
