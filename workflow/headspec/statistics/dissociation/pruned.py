"""Predictions of runs under pruning."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import tables
from headspec.config.runs import Run
from headspec.statistics.resampling import Clusters


@dataclass(frozen=True)
class PrunedPredictions:
    """Predictions of one run under pruning.

    Every task is evaluated on the same examples without pruning, and with the heads of every task pruned, at
    every fraction. `grouped` has, for tasks whose examples share texts (`headspec.data.overlap`), the
    source of the texts and the group of each example by its number.
    """

    run: Run
    metrics: Mapping[str, Any]  # task: its main metric, by name or a `Metric`
    stored: pd.DataFrame | str  # table 'predictions', or its path
    grouped: Mapping[str, tuple[str, NDArray[np.intp]]] = field(default_factory=dict)

    def read(self) -> pd.DataFrame:
        """Return the table; a path is read every time, to keep nothing in memory."""
        return tables.read(self.stored) if isinstance(self.stored, str) else self.stored


def evaluations(
    runs: Iterable[Mapping[str, Any]],
    metrics: Mapping[str, str],
    stored: Iterable[pd.DataFrame | str],
    grouped: Mapping[str, tuple[str, NDArray[np.intp]]] | None = None,
) -> Iterator[PrunedPredictions]:
    """Yield the predictions of runs, given by their fields as rules pass them; see `PrunedPredictions`.

    `grouped` has the texts and the group of every example, (n,), of tasks that share texts.
    """
    for run, table in zip(runs, stored, strict=True):
        yield PrunedPredictions(Run(**run), metrics, table, grouped or {})


def by_mixture(evaluations: Iterable[PrunedPredictions]) -> Iterator[list[PrunedPredictions]]:
    """Yield adjacent evaluations of one model and mixture together."""
    for _, group in itertools.groupby(evaluations, lambda one: (one.run.model, one.run.mixture)):
        yield list(group)


def drawn_clusters(
    evaluation: PrunedPredictions, task: str, numbers: NDArray[np.intp]
) -> tuple[str, Clusters]:
    """Return the source of texts of a task's examples, and the clusters in which these are drawn.

    `numbers` (n,) are those of the examples. The source is the task itself if it shares no texts.
    """
    source, group = evaluation.grouped.get(task, (task, numbers))
    others = [t for t in evaluation.run.tasks if t != task and evaluation.grouped.get(t, ("",))[0] == source]
    if source == task and not others:  # no pairs of its texts are in the mixture
        return task, Clusters(len(numbers))
    number = max(groups.max() for other, groups in evaluation.grouped.values() if other == source) + 1
    return source, Clusters(int(number), group[numbers])
