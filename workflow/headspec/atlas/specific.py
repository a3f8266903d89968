"""What a head is worth to one task alone: its share of the task's importance, less its mean share of others'.

Importance for different tasks is often of the same heads; pruning these says little about either task.
"""

from __future__ import annotations

import pandas as pd

from headspec.config.table_values import IMPORTANCE


def measure(heads: pd.DataFrame) -> pd.DataFrame:
    """Specific importance of every head, as rows of the schema `HEAD_FOLDS`.

    Shares are of the importance (Li et al. 2023, Eq. 4) of all heads in a fold; of a run on one task it is
    this share. Over the tasks of a mixture, the values of a head sum to 0.

    Parameters
    ----------
    heads : rows of the schema `HEAD_FOLDS` with the measure 'importance'
    """
    rows = heads[heads["measure"] == IMPORTANCE].reset_index(drop=True)
    share = rows["value"] / rows.groupby(["task", "fold"])["value"].transform("sum")
    by_head = share.groupby([rows["fold"], rows["layer"], rows["head"]])
    others = by_head.transform("count") - 1
    return rows.assign(value=share - (by_head.transform("sum") - share) / others.clip(lower=1))
