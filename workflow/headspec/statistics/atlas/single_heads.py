"""Change of a task's metric when one head is ablated, with paired intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas as pd

from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.dissociation.resampled import Evaluation
from headspec.statistics.intervals import over_seeds_and_examples
from headspec.statistics.metrics import score
from headspec.statistics.resampling import holm, p_value, paired_differences
from headspec.tables import FLOAT, INT, TEXT, Schema

SINGLE_HEADS = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "measure": TEXT, "layer": INT,
     "head": INT, "n_seeds": INT, "metric": TEXT, "base": FLOAT, "change": FLOAT, "ci_low": FLOAT,
     "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT, "p_holm": FLOAT},
    keys=7,
)  # fmt: skip
"""Table `single_heads`: a row for each task, measure and head; seeds combined.
tables/single_heads.parquet

measure: `ablation` (by zero) or `mean_ablation`
change: metric with the head ablated, less base
"""
#: resamples per ablation, at least: with fewer, no p could be small enough after correction over heads
FINEST = 40
#: columns of a single ablation, empty without ablation
ABLATION = ["measure", "layer", "head"]


def _wide(evaluation: Evaluation, task: str) -> pd.DataFrame:
    """Predictions of `task`: rows are (example, label), columns are (measure, layer, head), "" without."""
    rows = evaluation.predictions[evaluation.predictions["task"] == task]
    rows = rows.fillna({"measure": "", "layer": -1, "head": -1})
    wide = rows.pivot(index=["example", "label"], columns=ABLATION, values="prediction").sort_index()
    if ("", -1, -1) not in wide or wide.isna().any(axis=None):
        raise DataError(
            f"{evaluation.run.path}/ablated.parquet: task '{task}' lacks predictions of some examples"
        )
    return wide


def single_heads(
    evaluations: Iterable[Evaluation], resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """The table `single_heads`: the metric with one head ablated, minus that of the model as it is.

    Intervals are over examples, paired, and with three or more seeds over seeds too (see `intervals`).
    p_value: in each example the two predictions are swapped or not, for all seeds together (see
    `paired_differences`); p_holm corrects over the heads of the same task and measure.

    Parameters
    ----------
    evaluations : runs, with their tables `ablated` as predictions

    Raises
    ------
    DataError
        Predictions are missing, or the seeds of a run have different examples.
    """
    groups: dict[tuple[str, ...], list[tuple[Evaluation, pd.DataFrame]]] = defaultdict(list)
    for evaluation in evaluations:
        run = evaluation.run
        for task in run.tasks:
            groups[run.model, run.mixture, run.method, task].append((evaluation, _wide(evaluation, task)))
    rows = []
    for key, seeds in groups.items():
        (first, wide), task = seeds[0], key[-1]
        for other, of_seed in seeds[1:]:
            if not (of_seed.index.equals(wide.index) and of_seed.columns.equals(wide.columns)):
                raise DataError(
                    f"{other.run.path}/ablated.parquet: examples or heads of task '{task}' differ from "
                    f"those of {first.run.path}"
                )
        metric, label = first.metrics[task], wide.index.get_level_values("label").to_numpy(dtype=float)
        predicted = np.stack([of_seed.to_numpy(dtype=float).T for _, of_seed in seeds])  # (S, columns, n)
        values = np.array([[score(metric, label, one) for one in of_seed] for of_seed in predicted])
        columns: list[tuple[str, int, int]] = [*wide.columns.to_flat_index()]
        plain = columns.index(("", -1, -1))
        repeats = max(resamples, FINEST * len(columns))
        for i, column in enumerate(columns):
            if i == plain:
                continue
            rng = np.random.default_rng(derive(seed, "single heads", *key))
            bootstrap, null = paired_differences(
                metric, label, predicted[:, i], predicted[:, plain], repeats, rng
            )
            change = values[:, i] - values[:, plain]
            low, high, over = over_seeds_and_examples(change, bootstrap, confidence)
            p = float(p_value(change.mean(), null.mean(axis=1)))
            rows.append(
                (*key, *column, len(seeds), metric, values[:, plain].mean(), change.mean(), low, high, over)
                + (p, np.nan)
            )
    table = pd.DataFrame(rows, columns=list(SINGLE_HEADS.columns))
    family = table.groupby(["model", "mixture", "method", "task", "measure"])
    return table.assign(p_holm=family["p_value"].transform(holm))
