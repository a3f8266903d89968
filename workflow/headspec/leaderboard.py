"""The mean over tasks by which models are ranked on GLUE."""

from __future__ import annotations

import pandas as pd


def leaderboard_mean(values: pd.DataFrame) -> float:
    """Mean over tasks of the mean over each task's metrics.

    MNLI matched and mismatched are two tasks, and WNLI is none: nine tasks, as in the tables of
    Devlin et al. (2019) and Li et al. (2023). Those tables have one metric for each task, F1 of
    MRPC and QQP and Spearman's correlation of STS-B: give the rows of each task's main metric to
    compare with them. The server's own score is another one: it counts both metrics of these three
    tasks, MNLI once (the mean of both) and WNLI.

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
