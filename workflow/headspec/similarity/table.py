"""Tables of task similarities and affinities, over seeds and subjects.

Affinity is directed: how much one task, the source, would help another, the target.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from headspec.similarity.measures import PAIR
from headspec.tables import FLOAT, TEXT, Schema

PARAMETERS = Schema(
    {"measure": TEXT, "task_a": TEXT, "task_b": TEXT, "similarity": FLOAT},
    keys=3,
    row="pair of tasks",
    paths=("similarity/{model}/seed{seed}/fisher.parquet", "similarity/{model}/seed{seed}/gradient.parquet"),
)
SEED_AFFINITY = Schema(
    {"measure": TEXT, "source": TEXT, "target": TEXT, "affinity": FLOAT},
    keys=3,
    paths=(
        "similarity/{model}/seed{seed}/lookahead.parquet",
        "similarity/{model}/seed{seed}/lookahead-single.parquet",
        "similarity/{model}/seed{seed}/grad-tag.parquet",
    ),
    about={
        "measure": "`lookahead`, `lookahead-single` or `grad-tag`",
        "affinity": "share of the target's loss that the source removes; below 0 if it adds",
    },
)
AFFINITY = Schema(
    {"model": TEXT, "measure": TEXT, "source": TEXT, "target": TEXT, "affinity": FLOAT,
     "between_seeds": FLOAT},
    keys=4,
    about={
        "measure": "`lookahead`, `lookahead-single` or `grad-tag`",
        "affinity": "the same, mean over seeds",
    },
)  # fmt: skip


def seed_table(
    measure: str, tasks: Sequence[str], values: NDArray[np.float64], directed: bool
) -> tuple[Schema, pd.DataFrame]:
    """Return the schema and table of a measure for one seed, with ordered pairs if it is `directed`.

    `values` are (tasks, tasks), source first.
    """
    schema, pairs = (
        (SEED_AFFINITY, itertools.permutations) if directed else (PARAMETERS, itertools.combinations)
    )
    rows = [(measure, tasks[a], tasks[b], values[a, b]) for a, b in pairs(range(len(tasks)), 2)]
    return schema, pd.DataFrame(rows, columns=list(schema.columns))


def affinity(model: str, seeds: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the table `affinity` of a model, from tables `seed_affinity`; affinity is nan if a seed's is."""
    keys = list(SEED_AFFINITY.columns)[: SEED_AFFINITY.keys]
    groups = pd.concat(seeds, ignore_index=True).groupby(keys, sort=False)["affinity"]
    means = groups.agg(affinity=lambda values: values.mean(skipna=False), between_seeds="std").reset_index()
    return means.assign(model=model)[list(AFFINITY.columns)]


def both_ways(seed: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """Return similarity, the mean of both directions of one measure in a table `seed_affinity`.

    Columns are measure, task_a, task_b, similarity.
    """
    directed = dict(zip(zip(seed["source"], seed["target"], strict=True), seed["affinity"], strict=True))
    rows = [
        (seed["measure"].iloc[0], a, b, (directed[a, b] + directed[b, a]) / 2)
        for a, b in itertools.combinations(tasks, 2)
    ]
    return pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])


SIMILARITY = Schema(
    {"model": TEXT, "measure": TEXT, "task_a": TEXT, "task_b": TEXT, "subject": TEXT, "similarity": FLOAT,
     "between_seeds": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT},
    keys=5,
    about={
        "subject": "of `cnm`; null for the mean over subjects, the only row with an interval, and for other "
            "measures",
    },
)  # fmt: skip


def combined(
    model: str, seeds: Sequence[pd.DataFrame], confidence: float, seedless: Sequence[str]
) -> pd.DataFrame:
    """Return the table `similarity`: means over seeds and, for CNM, over subjects; nan if any seed has nan.

    `seeds` are from `pairwise`: tasks are compared within a seed, where training draws the same random
    numbers. Intervals are over subjects (Student's t), each with its mean over seeds. `seedless` measures are
    the same for every seed, so that `between_seeds` is nan.
    """
    pairs = pd.concat(seeds, ignore_index=True).groupby(PAIR, sort=False, dropna=False)["similarity"]
    frame = pairs.agg(similarity=lambda values: values.mean(skipna=False), between_seeds="std").reset_index()
    frame.loc[frame["measure"].isin(seedless), "between_seeds"] = float("nan")
    subjects = frame[frame["subject"].notna()].groupby(PAIR[:3], sort=False)["similarity"]
    means = subjects.agg(["mean", "sem", "count"]).reset_index()
    margin = means["sem"] * stdtrit(means["count"] - 1, (1 + confidence) / 2)
    over_subjects = means[PAIR[:3]].assign(
        similarity=means["mean"], ci_low=means["mean"] - margin, ci_high=means["mean"] + margin
    )
    frame = pd.concat([frame, over_subjects], ignore_index=True).assign(model=model)
    return frame.reindex(columns=list(SIMILARITY.columns))
