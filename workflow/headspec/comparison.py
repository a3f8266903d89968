"""Two ways of training on the same examples: how far their difference depends on examples and seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.errors import DataError
from headspec.resampling import paired_differences
from headspec.runs import Run
from headspec.seeds import derive

Floats = NDArray[np.float64]

#: the mean over tasks, and its metric
MEAN = "mean"


@dataclass(frozen=True)
class Predicted:
    """What S seeds predict of the same n examples of a task.

    Attributes
    ----------
    run : the first of them
    example, label : (n,)
    prediction : (S, n)
    """

    run: Run
    example: Floats
    label: Floats
    prediction: Floats

    def check_like(self, other: Predicted, task: str) -> None:
        """Raise `DataError` where `other` is not of the same examples and as many seeds."""
        for name in ("example", "label"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                raise DataError(
                    f"{other.run.path}/evaluation.parquet: task '{task}' has other validation examples "
                    f"than in {self.run.path}"
                )
        if len(self.prediction) != len(other.prediction):
            raise DataError(f"task '{task}' lacks a seed of {self.run.path} or of {other.run.path}")


def predicted(evaluations: Iterable[tuple[Run, pd.DataFrame]]) -> dict[str, Predicted]:
    """Task: what is predicted of it.

    Parameters
    ----------
    evaluations : the runs of every seed, in their order, each with its table `evaluation`
    """
    found: dict[str, list[Predicted]] = defaultdict(list)
    for run, frame in evaluations:
        for task, rows in frame.groupby("task", sort=False):
            rows = rows.sort_values("example")[["example", "label", "prediction"]]
            example, label, prediction = rows.to_numpy(dtype=float).T
            found[str(task)].append(Predicted(run, example, label, prediction[None]))
            found[str(task)][0].check_like(found[str(task)][-1], str(task))
    return {
        task: Predicted(own[0].run, own[0].example, own[0].label, np.concatenate([p.prediction for p in own]))
        for task, own in found.items()
    }


def mean_over_tasks(values: Mapping[tuple[str, str], Floats]) -> Floats:
    """Mean over tasks of the mean over each task's metrics (GLUE, Wang et al. 2018).

    A further split counts as a task, so that with MNLI matched and mismatched GLUE without WNLI has nine, as
    in the tables of Devlin et al. (2019) and Li et al. (2023). These have one metric for each task (F1 of
    MRPC and QQP, Spearman's correlation of STS-B). The server's own score counts both metrics, MNLI once
    and WNLI.

    Parameters
    ----------
    values : {(task, metric): array}, all of one shape, which is that of the result
    """
    by_task: dict[str, list[Floats]] = defaultdict(list)
    for (task, _), value in values.items():
        by_task[task].append(value)
    return np.mean([np.mean(of_task, axis=0) for of_task in by_task.values()], axis=0)


def compare(
    method: Mapping[str, Predicted],
    base: Mapping[str, Predicted],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    seed: int,
) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """Bootstrap and null distribution of the difference of two methods with the same S seeds.

    Bootstrap: examples with replacement, the same ones for both methods and for all seeds, independently
    for the tasks; `headspec.intervals` makes intervals of it. Where the methods disagree on a handful of
    examples only, these are too narrow and may end at 0; the p-value is right there too.

    Null: the methods' predictions swapped within examples or not, of all seeds together. It is of the
    hypothesis that *these* trained models do equally well on other examples, and says nothing of other
    seeds.

    Parameters
    ----------
    method, base : task: what the same seeds predict
    metrics : task: names of its metrics

    Returns
    -------
    {(task, metric): ((resamples, S), (resamples,))}
        Bootstrap of every seed, and null of their mean; the leaderboard mean as (`MEAN`, `MEAN`).

    Raises
    ------
    DataError
        The two are not of the same tasks, examples and number of seeds.
    """
    samples, nulls = {}, {}
    for task in dict.fromkeys([*method, *base]):
        if task not in method or task not in base:
            there, lacking = (method, base) if task in method else (base, method)
            path = next(iter(lacking.values())).run.path
            raise DataError(f"{path}/evaluation.parquet: no task '{task}', which {there[task].run.path} has")
        own, other = method[task], base[task]
        own.check_like(other, task)
        for metric in metrics[task]:
            rng = np.random.default_rng(derive(seed, task))  # the same draws for every metric
            bootstrap, null = paired_differences(
                metric, own.label, own.prediction, other.prediction, resamples, rng
            )
            samples[task, metric] = bootstrap
            nulls[task, metric] = null.mean(axis=1)
    for found in (samples, nulls):
        found[MEAN, MEAN] = mean_over_tasks(found)
    return {key: (samples[key], nulls[key]) for key in samples}
