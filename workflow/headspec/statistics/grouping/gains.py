"""Gains of tasks from sharing an encoder with others, and possible predictors of gains in pairs.

Matrices are (k, k), [source, target]: the gain of a target from a source is its metric, trained with the
source, minus its metric alone. The diagonal is nan.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.config.values import MEAN
from headspec.seeds import derive
from headspec.statistics.comparison import comparison_rows, predicted
from headspec.statistics.intervals import TESTED, corrected
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

SHARING = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "metric": TEXT, "n_seeds": INT,
     "value": FLOAT, "between_seeds": FLOAT, "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT,
     "ci_over": TEXT}
    | TESTED
    | {"unpruned_at_chance": FLAG},
    keys=5,
    about={
        "difference": "value minus the value of the task alone",
    },
)  # fmt: skip
GAINS = Schema(SHARING.columns, SHARING.keys)

SINGLE = "single"


def sharing(
    runs: Sequence[Run],
    read: Callable[[Run], pd.DataFrame],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `sharing`, from runs of mixtures and single-task runs of their tasks.

    Both p-values are corrected over the rows of a model and method, separately for means over tasks. Draws
    depend on `seed` and on the names of model, mixture, method and task.
    """
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.model, run.mixture, run.method), []).append(run)
    by_mixture = {}
    for key, group in groups.items():
        by_task = predicted((run, read(run)) for run in group)
        by_mixture[key] = {task: by_task[task] for task in group[0].tasks}
    alone = {
        (model, task): one[task] for (model, task, method), one in by_mixture.items() if method == SINGLE
    }
    rows: list[dict[str, object]] = []
    for (model, mixture, method), by_task in by_mixture.items():
        names = {"model": model, "mixture": mixture, "method": method}
        others = {task: alone[model, task] for task in by_task if (model, task) in alone}
        base, drawn = {} if method == SINGLE else others, derive(seed, "sharing", *names.values())
        found = comparison_rows(by_task, base, metrics, resamples, confidence, drawn)
        rows += [names | row for row in found]
    result = pd.DataFrame(rows, columns=list(SHARING.columns))
    return corrected(result, [result["model"], result["method"], result["task"] == MEAN])


def between_pairs(sharing: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `sharing` on pairs with plain training, with `source`, `target` and `alone`.

    The target is the row's task, the source its partner; `alone` is the value of the target trained alone.
    Groups, which have their own names, are left out even if they have two tasks.
    """
    single = sharing[sharing["method"] == SINGLE]
    alone = single[["model", "task", "metric", "value"]].rename(columns={"value": "alone"})
    rows = sharing[(sharing["method"] == "tuned") & (sharing["task"] != MEAN)]
    pairs = zip(rows["mixture"], rows["task"], strict=True)
    source = [mixture.removeprefix(f"{task}+").removesuffix(f"+{task}") for mixture, task in pairs]
    rows = rows.assign(source=source, target=rows["task"])
    rows = rows[rows["source"].isin(rows["task"])]
    return rows.merge(alone, how="left", on=["model", "task", "metric"])


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gains:
    """Measured gains of k tasks; nan for pairs that were not trained."""

    tasks: tuple[str, ...]
    gain: Floats  #: (k, k), fraction of the metric
    low: Floats  #: (k, k), interval of the table 'sharing'
    high: Floats  #: (k, k)
    reliability: float  #: of differences between a target's gains, over seeds; nan for one seed
    unlearnt: tuple[str, ...]  #: tasks that no model has learnt, alone or in pairs; their gains are nan


def measured_gains(
    sharing: pd.DataFrame, tasks: Sequence[str], metrics: Mapping[str, str], model: str
) -> Gains:
    """Return the gains of `tasks`, in this order, from pairs in the rows of 'sharing' for a model.

    `metrics` has the main metric of each task. A task whose models are all at chance has no gains, as source
    or target: its single-task runs are not informative either.

    Reliability is 1 minus the ratio of two variances within targets, where the error of the single-task run
    is the same for all sources: that of a pair's mean over seeds, averaged over pairs, and that of a target's
    gains over its sources. It is 0 if seeds alone explain the differences, and nan for one seed.
    """
    main = (sharing["model"] == model) & (sharing["metric"] == sharing["task"].map(metrics))
    rows = between_pairs(sharing[main])
    rows = rows[rows["difference"].notna() & rows["source"].isin(tasks) & rows["target"].isin(tasks)]
    rows = rows.assign(variance=rows["between_seeds"].astype(float) ** 2 / rows["n_seeds"])
    learnt = {*rows.loc[~rows["unpruned_at_chance"].eq(True), "task"]}
    unlearnt = tuple(task for task in tasks if task in {*rows["task"]} - learnt)
    rows = rows[~rows["source"].isin(unlearnt) & ~rows["target"].isin(unlearnt)]
    columns = {"difference": "gain", "ci_low": "low", "ci_high": "high", "variance": "variance"}
    matrices = {name: _matrix(rows, column, tasks) for column, name in columns.items()}
    reliability = _reliability(matrices["gain"], matrices.pop("variance"))
    return Gains(tuple(tasks), reliability=reliability, unlearnt=unlearnt, **matrices)


def _matrix(pairs: pd.DataFrame, column: str, tasks: Sequence[str]) -> Floats:
    """Return the values (k, k), [source, target], of a column; nan where there is no pair."""
    wide = pairs.pivot(index="source", columns="target", values=column)
    return wide.reindex(index=list(tasks), columns=list(tasks)).to_numpy(dtype=float)


def _reliability(gain: Floats, variance: Floats) -> float:
    """Return the share of variance within columns of `gain` that is not due to seeds, from 0 to 1.

    `gain`, and its `variance` due to seeds, are (k, k). The share is nan if a variance is unknown, or no
    target has two gains.
    """
    known = ~np.isnan(gain)
    freedom = np.maximum(known.sum(axis=0) - 1, 0).sum()
    if not freedom or np.isnan(variance[known]).any():
        return float("nan")
    means = np.divide(
        np.nansum(gain, axis=0), known.sum(axis=0), where=known.any(axis=0), out=np.zeros(len(gain))
    )
    between = np.nansum((gain - means) ** 2) / freedom
    return float(np.clip(1 - variance[known].mean() / between, 0, 1)) if between > 0 else 0.0


def features(
    similarity: pd.DataFrame, affinity: pd.DataFrame | None, tasks: Sequence[str], model: str
) -> dict[str, Floats]:
    """Return the matrix (k, k) of each measure, from the tables 'similarity' and 'affinity' of a model.

    Measures in 'affinity' are directed, others symmetric and means over subjects. A value that no table has
    is nan.
    """
    rows = similarity[(similarity["model"] == model) & similarity["subject"].isna()]
    rows = rows.rename(columns={"task_a": "source", "task_b": "target", "similarity": "value"})
    mirrored = rows.rename(columns={"source": "target", "target": "source"})
    rows = pd.concat([rows, mirrored])
    if affinity is not None:
        directed = affinity[affinity["model"] == model].rename(columns={"affinity": "value"})
        rows = pd.concat([rows[~rows["measure"].isin(set(directed["measure"]))], directed])
    rows = rows[rows["source"].isin(tasks) & rows["target"].isin(tasks)]
    groups = rows.groupby("measure", sort=False)
    return {str(measure): _matrix(group, "value", tasks) for measure, group in groups}


def sizes(examples: Sequence[int]) -> Floats:
    """Return (k, k), [source, target]: log of training examples of the source per example of the target."""
    log = np.log(np.asarray(examples, dtype=float))
    differences: Floats = log[:, None] - log
    return differences
