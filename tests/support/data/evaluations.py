"""Made-up predictions, of runs under pruning and of two methods."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from headspec.config.runs import Run
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.tasks.metrics import Metric


def evaluated(
    columns: Sequence[str],
    predictions: Mapping[tuple, ArrayLike],
    label: ArrayLike = 1.0,
    metric: str | Metric = "accuracy",
    **run: object,
) -> PrunedPredictions:
    """A run from {values of `columns`, among them the task: predictions (n,)}, with a `label` for all tasks.

    `run` has fields of `Run` in place of model 'm', the method 'tuned', seed 0, and the tasks in their order.
    """
    keys = pd.DataFrame([*predictions], columns=list(columns))
    values = [np.asarray(one, dtype=float) for one in predictions.values()]
    frame = keys.loc[np.repeat(np.arange(len(values)), [len(one) for one in values])].reset_index(drop=True)
    frame["example"] = np.concatenate([np.arange(len(one)) for one in values])
    frame["label"] = np.concatenate([np.broadcast_to(label, len(one)).astype(float) for one in values])
    frame["prediction"] = np.concatenate(values)
    for name in {"draw", "layer", "head"} & {*columns}:
        frame[name] = frame[name].astype("Int32")
    tasks = tuple(dict.fromkeys(keys["task"]))
    fields = {"model": "m", "mixture": "+".join(tasks), "tasks": tasks, "method": "tuned", "seed": 0} | run
    return PrunedPredictions(Run(**fields), dict.fromkeys(fields["tasks"], metric), frame)


def binary(
    rng: np.random.Generator, n: int = 80, seeds: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, and predictions (seeds, n) of two methods that err on the same hard examples."""
    label = rng.integers(2, size=n).astype(float)
    hard = rng.beta(1, 3, size=n)
    predictions = np.abs(label - (rng.random((2 * seeds, n)) < hard))
    return label, predictions[:seeds], predictions[seeds:]
