"""Similarity of every pair of tasks by every measure: over seeds, and over the subjects of CNM."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from headspec.maps import importance_map, prune_count, top_heads
from headspec.similarity import Floats, Traits
from headspec.similarity.measures import MEASURES
from headspec.tables import FLOAT, TEXT, Schema

# mean over seeds (between_seeds: their standard deviation); subject null: mean over subjects, and its
# interval
SIMILARITY = Schema(
    {"model": TEXT, "measure": TEXT, "task_a": TEXT, "task_b": TEXT, "subject": TEXT, "similarity": FLOAT,
     "between_seeds": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT},
    keys=5,
)  # fmt: skip

PAIR = ["measure", "task_a", "task_b", "subject"]
#: measures that no seed has a part in
SEEDLESS = ("paradigm", "text")


def traits(
    paradigms: Mapping[str, str],
    text: pd.DataFrame | None,
    vectors: pd.DataFrame | None,
    importances: Mapping[str, pd.DataFrame],
    fraction: float,
) -> dict[str, Traits]:
    """What one seed's tables say of every task.

    Parameters
    ----------
    paradigms : task: `single` or `pair`
    text, vectors : tables 'representations' of the training texts' means and of the probe
    importances : task: table 'importance' of its single-task run
    fraction : part of the heads that is pruned
    """
    found: dict[str, Traits] = {task: {"paradigm": kind} for task, kind in paradigms.items()}
    if text is not None:
        for task, means in _by_task(text).items():
            found[task]["text"] = means[0]
    if vectors is not None:
        for task, own in _by_task(vectors).items():
            found[task]["vectors"] = own
    for task, table in importances.items():
        heads = importance_map(table, task)
        found[task]["importance"] = heads
        found[task]["top"] = top_heads(heads, prune_count(fraction, heads.size))
        found[task]["head_fisher"] = importance_map(table, task, "fisher")
    return found


def encodings(encoding: pd.DataFrame) -> dict[str, dict[str, Traits]]:
    """Subject: task: how well the task's model predicts each voxel, from the table 'encoding'."""
    found: dict[str, dict[str, Traits]] = {}
    for subject, scores in encoding.groupby("subject"):
        wide = scores.pivot(index="task", columns="voxel", values="r")
        found[str(subject)] = {str(task): {"encoding": wide.loc[task].to_numpy()} for task in wide.index}
    return found


def _by_task(representations: pd.DataFrame) -> dict[str, Floats]:
    """The vectors of every task, (texts, hidden)."""
    groups = representations.groupby("task")["vector"]
    return {str(task): np.stack(vectors.tolist()) for task, vectors in groups}


def pairwise(
    traits: Mapping[str, Traits],
    tasks: Sequence[str],
    measures: Sequence[str],
    subject: str | None = None,
) -> pd.DataFrame:
    """Similarity of every two of `tasks`; columns measure, task_a, task_b, subject, similarity."""
    rows = [
        (measure, a, b, subject, MEASURES[measure](traits[a], traits[b]))
        for measure in measures
        for a, b in itertools.combinations(tasks, 2)
    ]
    return pd.DataFrame(rows, columns=[*PAIR, "similarity"])


def combined(model: str, seeds: Sequence[pd.DataFrame], confidence: float) -> pd.DataFrame:
    """Means over seeds, and over subjects where there are any.

    Parameters
    ----------
    seeds : what `pairwise` gives for each seed
        Task a of one seed is compared with task b of the same seed, whose training draws from the
        same random numbers.
    confidence : level of the interval over subjects (Student's t), each subject a mean over seeds

    Returns
    -------
    table 'similarity'
        A row without a subject for every measure and pair. CNM has one for each subject beside it. nan where
        it is in any seed.
    """
    every = pd.concat(seeds, ignore_index=True).groupby(PAIR, sort=False, dropna=False)["similarity"]
    frame = every.agg(similarity=lambda values: values.mean(skipna=False), between_seeds="std").reset_index()
    frame.loc[frame["measure"].isin(SEEDLESS), "between_seeds"] = float("nan")
    of_subjects = frame[frame["subject"].notna()].groupby(PAIR[:3], sort=False)["similarity"]
    means = of_subjects.agg(["mean", "sem", "count"]).reset_index()
    reach = means["sem"] * stats.t.ppf((1 + confidence) / 2, means["count"] - 1)
    over_subjects = means[PAIR[:3]].assign(
        similarity=means["mean"], ci_low=means["mean"] - reach, ci_high=means["mean"] + reach
    )
    frame = pd.concat([frame, over_subjects], ignore_index=True).assign(model=model)
    return frame.reindex(columns=list(SIMILARITY.columns))
