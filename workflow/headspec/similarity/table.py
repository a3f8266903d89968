"""Table of task similarities: every pair of tasks by every measure, over seeds and subjects."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from headspec.attention import existing
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.similarity.measures import Floats, Traits
from headspec.tables import FLOAT, TEXT, Schema

SIMILARITY = Schema(
    {"model": TEXT, "measure": TEXT, "task_a": TEXT, "task_b": TEXT, "subject": TEXT, "similarity": FLOAT,
     "between_seeds": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT},
    keys=5,
)  # fmt: skip
"""Table `similarity`: a row for each model, measure, task_a, task_b and subject.
tables/similarity.parquet

subject: of `cnm`; null for the mean over subjects, which alone has an interval, and other measures
"""

PAIR = ["measure", "task_a", "task_b", "subject"]
#: a measure
Similarity = Callable[[Traits, Traits], float]


def traits(
    paradigms: Mapping[str, str],
    text: pd.DataFrame | None,
    vectors: pd.DataFrame | None,
    importances: Mapping[str, pd.DataFrame],
    fraction: float,
) -> dict[str, Traits]:
    """Return the traits of every task from the tables of one seed.

    `text` and `vectors` are tables 'representations' of training texts (means) and of sentences;
    `importances` have the table 'importance' of each task's single-task run, whose top `fraction` of heads
    counts.
    """
    by_task: dict[str, Traits] = {task: {"paradigm": kind} for task, kind in paradigms.items()}
    if text is not None:
        for task, means in _vectors(text).items():
            by_task[task]["text"] = means[0]
    if vectors is not None:
        for task, sentences in _vectors(vectors).items():
            by_task[task]["vectors"] = sentences
    for task, table in importances.items():
        heads = importance_map(table, task)
        exists = existing(heads)
        by_task[task]["importance"] = heads[exists]
        by_task[task]["top"] = top_heads(heads, prune_count(fraction, int(exists.sum())))[exists]
        by_task[task]["head_fisher"] = importance_map(table, task, "fisher")[exists]
    return by_task


def encodings(encoding: pd.DataFrame) -> dict[str, dict[str, Traits]]:
    """Return predictability of each voxel by subject and task, from 'brain_encoding'."""
    by_subject: dict[str, dict[str, Traits]] = {}
    for subject, scores in encoding.groupby("subject"):
        wide = scores.pivot(index="task", columns="voxel", values="r")
        by_subject[str(subject)] = {str(task): {"encoding": wide.loc[task].to_numpy()} for task in wide.index}
    return by_subject


def _vectors(representations: pd.DataFrame) -> dict[str, Floats]:
    """The vectors of every task, (texts, hidden)."""
    groups = representations.groupby("task")["vector"]
    return {str(task): np.stack(vectors.tolist()) for task, vectors in groups}


def pairwise(
    traits: Mapping[str, Traits],
    tasks: Sequence[str],
    measures: Mapping[str, Similarity],
    subject: str | None = None,
) -> pd.DataFrame:
    """Similarity of every pair of `tasks`; columns measure, task_a, task_b, subject, similarity."""
    rows = [
        (measure, a, b, subject, function(traits[a], traits[b]))
        for measure, function in measures.items()
        for a, b in itertools.combinations(tasks, 2)
    ]
    return pd.DataFrame(rows, columns=[*PAIR, "similarity"])


def combined(
    model: str, seeds: Sequence[pd.DataFrame], confidence: float, seedless: Sequence[str]
) -> pd.DataFrame:
    """Return the table `similarity`: means over seeds and, for CNM, over subjects; nan if any seed has nan.

    `seeds` are from `pairwise`: tasks are compared within a seed, where training draws the same random
    numbers. Intervals are over subjects (Student's t), each the mean over seeds. `seedless` measures are the
    same for every seed.
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
