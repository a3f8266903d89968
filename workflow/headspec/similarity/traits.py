"""Traits of tasks, which measures of similarity compare; each is read by the function of its name.

Functions take a rule's tables for a model and seed, and the fraction of heads that counts as the top. They
return the trait of each task, or of each task by subject. `headspec.config.measures.similarity` lists them.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.head_arrays import existing
from headspec.heads import ranking
from headspec.similarity.measures import Floats


def text(representations: pd.DataFrame, fraction: float) -> dict[str, Floats]:
    """Return the mean of the training texts' pretrained vectors, (hidden,)."""
    return {task: means[0] for task, means in vectors(representations, fraction).items()}


def vectors(representations: pd.DataFrame, fraction: float) -> dict[str, Floats]:
    """Return the single-task model's vectors of the sentences, (sentences, hidden)."""
    groups = representations.groupby("task")["vector"]
    return {str(task): np.stack(rows.tolist()) for task, rows in groups}


def importance(importance: pd.DataFrame, fraction: float) -> dict[str, Floats]:
    """Return the importance of existing heads in single-task runs, (heads,)."""
    return _heads(importance, "importance")


def head_fisher(importance: pd.DataFrame, fraction: float) -> dict[str, Floats]:
    """Return the Fisher information of the gates of existing heads, (heads,)."""
    return _heads(importance, "fisher")


def top(importance: pd.DataFrame, fraction: float) -> dict[str, NDArray[np.bool_]]:
    """Return whether each existing head is among the most important, bool (heads,)."""
    tops = {}
    for task in importance["task"].unique():
        heads = ranking.importance_map(importance, task)
        exists = existing(heads)
        tops[str(task)] = ranking.top_heads(heads, ranking.prune_count(fraction, int(exists.sum())))[exists]
    return tops


def _heads(table: pd.DataFrame, column: str) -> dict[str, Floats]:
    exists = {task: existing(ranking.importance_map(table, task)) for task in table["task"].unique()}
    return {str(task): ranking.importance_map(table, task, column)[heads] for task, heads in exists.items()}


def encoding(encoding: pd.DataFrame, fraction: float) -> dict[str, dict[str, Floats]]:
    """Return r of each voxel, (voxels,), by subject and task, as predicted from vectors of stimuli."""
    return {
        str(subject): {
            str(task): row.to_numpy()
            for task, row in scores.pivot(index="task", columns="voxel", values="r").iterrows()
        }
        for subject, scores in encoding.groupby("subject")
    }
