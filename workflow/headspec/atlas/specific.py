"""Specific importance of a head: its share of a task's importance minus its mean share of other tasks'.

Different tasks often have the same important heads; pruning these says little about either task.
"""

import pandas as pd

from headspec.config.values import IMPORTANCE


def measure(heads: pd.DataFrame) -> pd.DataFrame:
    """Return the specific importance of every head, as rows of the schema `HEAD_FOLDS`.

    Shares are of the importance (Li et al. 2023, Eq. 4) of all heads in a fold; in a run on one task they are
    the result. Over the tasks of a mixture, a head's values sum to 0. `heads` are rows of `HEAD_FOLDS` with
    the measure 'importance'.
    """
    rows = heads[heads["measure"] == IMPORTANCE].reset_index(drop=True)
    share = rows["value"] / rows.groupby(["task", "fold"])["value"].transform("sum")
    by_head = share.groupby([rows["fold"], rows["layer"], rows["head"]])
    others = by_head.transform("count") - 1
    return rows.assign(value=share - (by_head.transform("sum") - share) / others.clip(lower=1))
