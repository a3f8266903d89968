"""Whether IAT makes a better model: every way of training against plain multi-task training."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from headspec.metrics import score
from headspec.study import Run, Variant
from headspec.tables import SCHEMAS


def scores(
    runs: Iterable[tuple[Run, pd.DataFrame]], variants: list[Variant], metrics: dict[str, list[str]]
) -> pd.DataFrame:
    """The table `iat`: every metric of every task of every run.

    Parameters
    ----------
    runs : a run, and its table `evaluation`
    variants : what runs other than of tasks alone are, by their method
    metrics : task: names of its metrics
    """
    kinds = {variant.method: variant for variant in variants}
    sampling = variants[0].sampling
    rows = []
    for run, predictions in runs:
        own = kinds.get(run.method, Variant(method=run.method, base=run.method, sampling=sampling))
        for task, part in predictions.groupby("task", sort=False):
            for metric in metrics[str(task)]:
                value = score(metric, part["label"].to_numpy(), part["prediction"].to_numpy())
                rows.append(
                    (run.model, run.mixture, run.method, own.sampling, run.seed, task, metric, value)
                    + (own.heads, own.alpha, own.delta)
                )
    return pd.DataFrame(rows, columns=list(SCHEMAS["iat"][0]))
