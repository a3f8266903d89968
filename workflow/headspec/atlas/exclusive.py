"""Which heads are among the most important of one task and of no other."""

import numpy as np
import pandas as pd

from headspec.config.values import IMPORTANCE


def exclusive(heads: pd.DataFrame) -> pd.DataFrame:
    """Return how exclusively every head is a task's, as rows of the schema `HEAD_FOLDS`.

    It counts the values of n for which the head is among the n most important heads of the task (Li et al.
    2023, Eq. 4) and of no other task of the mixture: its best rank for another task minus its rank, in each
    fold. It is negative where another task ranks the head higher. For two tasks, the values of one are minus
    those of the other. In a run on one task, the other rank is one past the last. `heads` are rows of
    `HEAD_FOLDS`, of which the measure 'importance' is used.
    """
    rows = heads[heads["measure"] == IMPORTANCE].sort_values(["task", "fold", "layer", "head"])
    rows = rows.reset_index(drop=True)
    lists = rows.groupby(["task", "fold"])["value"]
    rank, last = lists.rank(method="first", ascending=False), lists.transform("size")
    by_head = rank.groupby([rows["fold"], rows["layer"], rows["head"]])
    order = by_head.rank(method="first")
    first = by_head.transform("min")
    second = rank.where(order == 2).groupby([rows["fold"], rows["layer"], rows["head"]]).transform("min")
    others = np.where(order == 1, second.fillna(last + 1), first)
    return rows.assign(value=others - rank)
