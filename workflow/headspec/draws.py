"""Draws of a few training examples, for transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec.errors import DataError
from headspec.seeds import derive
from headspec.strata import stratified_order
from headspec.tables import INT, Schema

if TYPE_CHECKING:
    from headspec.study import Study
    from headspec.tasks import Prepared

# the first m places of a draw are its m samples
DRAWS = Schema({"draw": INT, "place": INT, "example": INT}, keys=2)


def few_shot(name: str, labels: pd.Series, samples: list[int], draws: int, seed: int) -> pd.DataFrame:
    """Draws of a few training examples: the first m of a draw are its m samples.

    So fewer samples are among more. Shares of classes are kept as far as every class is there at
    least once. Draws are independent of one another and may have examples in common.

    Parameters
    ----------
    name : the task
    labels : (n,)
        Class of each example; of a regression task, the same for all.
    samples : numbers of samples that are wanted
    seed : the study's `data_seed`

    Returns
    -------
    table 'draws', a row for every place of every draw

    Raises
    ------
    DataError
        The task has too few examples, or more classes than the fewest samples.
    """
    check_samples(name, labels, samples)
    frames = []
    for draw in range(draws):
        order = stratified_order(labels, np.random.default_rng(derive(seed, "few-shot", name, draw)))
        first = ~labels.iloc[order].duplicated().to_numpy()  # of its class
        order = np.concatenate([order[first], order[~first]])[: max(samples)]
        frames.append(pd.DataFrame({"draw": draw, "place": range(len(order)), "example": order}))
    return pd.concat(frames, ignore_index=True)


def check(study: Study, prepared: Mapping[str, Prepared]) -> None:
    """Refuse, with one DataError for all of them, transfer tasks with too few examples for the samples."""
    problems = []
    for name in study.transfer.tasks:
        if name in prepared:
            try:
                check_samples(
                    name, strata(prepared[name].train, prepared[name].classes), study.transfer.samples
                )
            except DataError as error:
                problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))


def strata(train: pd.DataFrame, classes: list[str] | None) -> pd.Series:
    """What a draw keeps the shares of: the classes; nothing in a regression task, which has none."""
    return train["label"] if classes else pd.Series("", index=train.index)


def check_samples(name: str, labels: pd.Series, samples: list[int]) -> None:
    """Raise DataError where a task has not as many examples as `samples`, or more classes."""
    n, classes = len(labels), labels.nunique()
    problems = []
    for i, wanted in enumerate(samples):
        if wanted > n:
            problems.append(
                f"transfer.samples.{i}: got {wanted}, expected at most {n}, the training examples of '{name}'"
            )
        elif wanted < classes:
            problems.append(
                f"transfer.samples.{i}: got {wanted}, expected at least {classes}, one example of "
                f"every class of '{name}'"
            )
    if problems:
        raise DataError("\n".join(problems))
