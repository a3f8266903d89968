"""The mean over tasks by which models are ranked on GLUE."""

from __future__ import annotations

import pandas as pd


def leaderboard_mean(values: pd.DataFrame) -> float:
    """Mean over tasks of the mean over each task's metrics.

    MNLI matched and mismatched are two tasks, and WNLI is none: nine tasks, as in the tables of
    Li et al. (2023) and Devlin et al. (2019). The server's own score is another one: there MNLI is
    one task, the mean of both, and WNLI and the diagnostics' Matthews are shown or counted too, so
    it is not comparable with this mean.

    Parameters
    ----------
    values : columns task, metric and value, with one row for each metric of each task; of one
        model, method and seed

    Raises
    ------
    ValueError
        A metric of a task comes twice: there are several runs in `values`.
    """
    if values.duplicated(["task", "metric"]).any():
        raise ValueError("a metric of a task comes twice: the mean is of one run")
    return float(values.groupby("task")["value"].mean().mean())
