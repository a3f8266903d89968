"""Random draws of a few training examples, for transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec.data.prepare import Prepared, stratified_order
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.tables import INT, Schema
from headspec.tasks import data
from headspec.tasks.parts import Classes, type_of

if TYPE_CHECKING:
    from headspec.config.study import Study

DRAWS = Schema(
    {"draw": INT, "place": INT, "example": INT},
    keys=2,
    row="example of a draw",
    paths=("transfer/{task}.parquet",),
    about={
        "place": "place in the draw: the first m are its sample of m",
    },
)


def few_shot(name: str, labels: pd.Series, samples: list[int], draws: int, seed: int) -> pd.DataFrame:
    """Return the table `draws`: random draws of a few training examples of task `name`, which may overlap.

    The first m of a draw are its sample of m: every class has at least one example, and otherwise its
    proportion. Raises DataError if the task has fewer examples than the largest of `samples`, or more classes
    than the smallest. `labels` (n,) are classes, or a constant for regression; `seed` is the study's
    `data_seed`.
    """
    if problems := _wrong_samples(name, labels, samples):
        raise DataError("\n".join(problems))
    frames = []
    for draw in range(draws):
        order = stratified_order(labels, np.random.default_rng(derive(seed, "few-shot", name, draw)))
        first = ~labels.iloc[order].duplicated().to_numpy()  # the first example of its class
        order = np.concatenate([order[first], order[~first]])[: max(samples)]
        frames.append(pd.DataFrame({"draw": draw, "place": range(len(order)), "example": order}))
    return pd.concat(frames, ignore_index=True)


def check_draws(study: Study, prepared: Mapping[str, Prepared]) -> None:
    """Raise one DataError for all transfer tasks that have too few examples for `transfer.samples`."""
    problems: list[str] = []
    for name in study.transfer.tasks:
        if name in prepared:
            labels = strata(prepared[name].train, prepared[name].classes)
            problems += _wrong_samples(name, labels, study.transfer.samples)
    if problems:
        raise DataError("\n".join(problems))


def strata(train: pd.DataFrame, classes: Classes) -> pd.Series:
    """Return labels to stratify draws by: the classes, or a constant for tasks without classes."""
    return data.reader(type_of(classes)).strata(train)


def _wrong_samples(name: str, labels: pd.Series, samples: list[int]) -> list[str]:
    """Return problems with sizes above a task's number of examples or below its number of classes."""
    n, classes = len(labels), labels.nunique()
    problems = []
    for i, size in enumerate(samples):
        if size > n:
            problems.append(
                f"transfer.samples.{i}: got {size}, expected at most {n}, the training examples of '{name}'"
            )
        elif size < classes:
            problems.append(
                f"transfer.samples.{i}: got {size}, expected at least {classes}, one example of "
                f"every class of '{name}'"
            )
    return problems
