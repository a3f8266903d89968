"""Gains and losses of tasks that share an encoder with others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from headspec.config.runs import Run
from headspec.config.values import MEAN
from headspec.seeds import derive
from headspec.statistics.resampling import holm
from headspec.statistics.training.comparison import differences, predicted, unlearnt, values_of
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

SHARING = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "metric": TEXT, "n_seeds": INT,
     "value": FLOAT, "between_seeds": FLOAT, "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT,
     "ci_over": TEXT, "p_value": FLOAT, "p_holm": FLOAT, "unpruned_at_chance": FLAG},
    keys=5,
)  # fmt: skip
"""Table `sharing`: a row for each model, mixture, method, task and metric.
tables/sharing.parquet

difference: value less the value of the task alone
"""

GAINS = SHARING
"""Table `gains`: a row for each model, mixture, method, task and metric.
tables/gains.parquet
"""

SINGLE = "single"


def sharing(
    runs: Sequence[Run],
    read: Callable[[Run], pd.DataFrame],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `sharing`, from runs of mixtures and of their tasks alone (method `single`).

    Draws depend on `seed` and on the names of model, mixture, method and task.
    """
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.model, run.mixture, run.method), []).append(run)
    found = {}
    for key, group in groups.items():
        by_task = predicted((run, read(run)) for run in group)
        found[key] = {task: by_task[task] for task in group[0].tasks}
    alone = {(model, task): one[task] for (model, task, method), one in found.items() if method == SINGLE}
    rows: list[dict[str, Any]] = []
    for (model, mixture, method), by_task in found.items():
        row = {"model": model, "mixture": mixture, "method": method}
        others = {task: alone[model, task] for task in by_task if (model, task) in alone}
        compared = {task: by_task[task] for task in others}
        tested, nothing, nor = {}, unlearnt(by_task, metrics), unlearnt(others, metrics)
        if method != SINGLE and others:
            drawn = derive(seed, "sharing", *row.values())
            tested = differences(compared, others, metrics, resamples, confidence, drawn)
        for (task, metric), values in values_of(by_task, metrics).items():
            names = {"task": task, "metric": metric, "n_seeds": len(values), "value": values.mean(),
                     "between_seeds": values.std(ddof=1) if len(values) > 1 else None}  # fmt: skip
            whole = task != MEAN or len(others) == len(by_task)
            change = tested.get((task, metric), {}) if whole else {}
            mark = nothing[task, metric] and (not change or nor[task, metric])
            rows.append(row | names | change | {"unpruned_at_chance": mark})
    result = pd.DataFrame(rows, columns=list(SHARING.columns))
    families = result.groupby(["model", "method", result["task"] == MEAN])
    return result.assign(p_holm=families["p_value"].transform(holm))


def between_pairs(sharing: pd.DataFrame) -> pd.DataFrame:
    """What tasks gain in pairs with plain training: rows of the table `sharing` with `source` and `target`.

    The target is the row's task, the source its partner; `alone` is the value of the target trained alone.
    Groups, which have names of their own, are left out even if they have two tasks.
    """
    single = sharing[sharing["method"] == SINGLE]
    alone = single[["model", "task", "metric", "value"]].rename(columns={"value": "alone"})
    rows = sharing[(sharing["method"] == "tuned") & (sharing["task"] != MEAN)]
    pairs = zip(rows["mixture"], rows["task"], strict=True)
    source = [mixture.removeprefix(f"{task}+").removesuffix(f"+{task}") for mixture, task in pairs]
    rows = rows.assign(source=source, target=rows["task"])
    rows = rows[rows["source"].isin(rows["task"])]
    return rows.merge(alone, how="left", on=["model", "task", "metric"])
