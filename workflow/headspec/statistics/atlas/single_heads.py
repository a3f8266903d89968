"""Change of a task's metric when one head is ablated, with paired intervals."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas as pd

from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.intervals import (
    TESTED,
    corrected,
    tested,
)
from headspec.statistics.resampling import (
    Predictions,
    paired_differences,
    task_predictions,
    unique_keys,
)
from headspec.tables import FLOAT, INT, TEXT, Schema
from headspec.tasks.metrics import scores

SINGLE_HEADS = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "measure": TEXT, "layer": INT,
     "head": INT, "n_seeds": INT, "metric": TEXT, "base": FLOAT, "change": FLOAT, "ci_low": FLOAT,
     "ci_high": FLOAT, "ci_over": TEXT}
    | TESTED,
    keys=7,
    about={
        "measure": "`ablation` or `mean_ablation`",
        "change": "metric without the head, minus base",
    },
)  # fmt: skip
#: minimum resamples per ablation: with fewer, no p could be small enough after correction over heads
FINEST = 40
#: columns of a single ablation, empty without ablation
ABLATION = ["measure", "layer", "head"]
PLAIN = pd.MultiIndex.from_tuples([("", -1, -1)], names=ABLATION)


def _ablated_predictions(evaluation: PrunedPredictions, task: str) -> tuple[pd.MultiIndex, Predictions]:
    """Return the (measure, layer, head) of each set, `PLAIN` without ablation, and predictions of `task`."""
    frame = evaluation.read()
    rows = (
        frame[frame["task"] == task]
        .fillna({"measure": "", "layer": -1, "head": -1})
        .astype({"layer": int, "head": int})
    )
    sets = unique_keys(rows, ABLATION).union(PLAIN)
    return sets, task_predictions(rows, task, sets, f"{evaluation.run.path}/ablated.parquet: task '{task}'")


def single_heads(
    evaluations: Iterable[PrunedPredictions], resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return the table `single_heads`: the metric with one head ablated, minus that of the whole model.

    Intervals are paired. p_value is from randomly swapping the two predictions of each example, in all seeds
    together (see `paired_differences`); p_seeds covers other seeds. Both are corrected over the heads of the
    same model, mixture, method, task and measure. `evaluations` have the tables `ablated` as predictions.
    Raises DataError if some predictions are missing, or seeds differ in examples or heads.
    """
    groups: dict[tuple[str, ...], list[tuple[Run, pd.MultiIndex, Predictions]]] = defaultdict(list)
    metrics: dict[str, str] = {}
    for evaluation in evaluations:
        run = evaluation.run
        for task in run.tasks:
            groups[run.model, run.mixture, run.method, task].append(
                (run, *_ablated_predictions(evaluation, task))
            )
            metrics[task] = evaluation.metrics[task]
    rows = []
    for key, seeds in groups.items():
        (first, sets, predicted), metric = seeds[0], metrics[key[-1]]
        for other, other_sets, others in seeds[1:]:
            if others.content != predicted.content or not other_sets.equals(sets):
                raise DataError(
                    f"{other.path}/ablated.parquet: examples or heads of task '{key[-1]}' differ from "
                    f"those of {first.path}"
                )
        label = predicted.label
        predictions = np.stack([one.prediction for _, _, one in seeds])  # (S, columns, n, ...)
        values = np.stack([scores(metric, label, one) for one in predictions])
        columns: list[tuple[str, int, int]] = [*sets]
        plain = columns.index(("", -1, -1))
        repeats = max(resamples, FINEST * len(columns))
        for i, column in enumerate(columns):
            if i == plain:
                continue
            rng = np.random.default_rng(derive(seed, "single heads", *key))
            bootstrap, null = paired_differences(
                metric, label, predictions[:, i], predictions[:, plain], repeats, rng
            )
            change = values[:, i] - values[:, plain]
            names = dict(zip(SINGLE_HEADS.columns, (*key, *column, len(seeds), metric), strict=False))
            compared = tested(change, bootstrap, confidence, null.mean(axis=1))
            rows.append(names | {"base": values[:, plain].mean(), "change": change.mean()} | compared)
    table = pd.DataFrame(rows, columns=list(SINGLE_HEADS.columns))
    return corrected(table, [table[name] for name in ("model", "mixture", "method", "task", "measure")])
