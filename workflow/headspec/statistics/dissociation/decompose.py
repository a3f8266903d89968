"""Parts of anyone's pruning matrix, and whether models agree in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.errors import listing
from headspec.statistics.dissociation.given import Given, given, keyed
from headspec.statistics.dissociation.notebook import given_matrices
from headspec.statistics.dissociation.parts import FEWEST_TASKS, OWN, REST, agreements, fragility, parts_of
from headspec.statistics.dissociation.scores import relative

Floats = NDArray[np.float64]

#: fewest tasks whose renamings allow a p below 0.05: 4! = 24
FEWEST_RENAMED = 4


def decompose(matrix: pd.DataFrame, *, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return the parts of a pruning matrix: its lists of heads, its tasks, and the pairs of both.

    The sum of squares of relative performance at task i, with the heads of task j pruned, has four parts.

    Parameters
    ----------
    matrix, resamples, seed : as in `dissociate`; seeds of a model are averaged

    Returns
    -------
    parts : DataFrame, four rows for each model and size

        - part: 'source', how much lists of heads differ in strength, whatever the task; 'target', how much
          tasks differ in fragility, whatever the list; 'own', what lists cost their own task more, or less;
          'rest', all else, noise among it
        - share of the sum of squares; by_chance: the share that this part would have if it were nothing
        - p_value, of these runs: of 'source', that it makes no difference whose heads are pruned
          (permutation); of 'target', that no task loses more than another (bootstrap); of 'own', that lists
          cost their own tasks no more than others' lists do (sources renamed, in all k! ways up to eight
          tasks); none of 'rest'
        - why: why there is no p, or none below 0.05

    Raises
    ------
    ValueError
        As `dissociate`.
    """
    frames = []
    for one in given(matrix):
        settings = one, dict.fromkeys(one.tasks, 0.0), resamples, 0.95, seed
        matrices = given_matrices(*settings)
        same = given_matrices(*settings, same=True) if one.unpaired else []
        for place, size in enumerate(one.sizes):
            frame = pd.DataFrame(parts_of(matrices, place, seed, same))
            frames.append(frame.assign(model=one.runs[0].model, size=size, why=_why(frame, len(one.tasks))))
    columns = ["part", "share", "by_chance", "p_value", "why"]
    return keyed(matrix, pd.concat(frames, ignore_index=True), columns)


def _why(parts: pd.DataFrame, k: int) -> list[str]:
    """Return why parts have no p, or none below 0.05; empty texts for others."""
    renamed = f"{k} tasks: no p below {1 / math.factorial(k):.2g}" if k < FEWEST_RENAMED else ""
    return [
        renamed if part == OWN else "neither n nor examples" if part != REST and np.isnan(p) else ""
        for part, p in zip(parts["part"], parts["p_value"], strict=True)
    ]


def shared_fragility(matrix: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Return whether the same tasks are fragile in several models.

    The fragility of a task is what lists of other tasks cost it, as a share of its unpruned performance, net
    of their strengths. Models are correlated, so that mean and spread of fragility in a model do not count.

    Parameters
    ----------
    matrix, seed : as in `dissociate`, with at least two models of the same three tasks or more

    Returns
    -------
    shared : DataFrame, a row for each size and pair of models, and one for all of three models or more

        - r, r2: Pearson correlation over tasks, and its square; for all models, the mean r and its square
        - p_value: one-sided, that fragility in one model says nothing about another (tasks renamed)
        - why: why there is no p below 0.05

    Raises
    ------
    ValueError
        As `dissociate`; or there is one model, there are two tasks, or models differ in tasks or sizes.
    """
    models = given(matrix)
    first, *others = models
    k = len(first.tasks)
    if not others or k < FEWEST_TASKS:
        raise ValueError(
            f"matrix: got models {listing(one.runs[0].model for one in models)} with {k} tasks, expected at "
            f"least two models and {FEWEST_TASKS} tasks"
        )
    for one in others:
        if {*one.tasks} != {*first.tasks} or one.sizes != first.sizes:
            what = "tasks" if {*one.tasks} != {*first.tasks} else "sizes"
            raise ValueError(
                f"matrix: {what} of model {one.runs[0].model!r} differ from those of {first.runs[0].model!r}"
            )
    rows = []
    profiles = {one.runs[0].model: _profiles(one, first.tasks) for one in models}
    for place, size in enumerate(first.sizes):
        for row in agreements({name: profile[place] for name, profile in profiles.items()}, seed):
            few = row["n_models"] == 2 and k == FEWEST_TASKS
            why = f"{k} tasks: no p below {1 / math.factorial(k):.2g}" if few else ""
            rows.append(row | {"size": size, "why": why})
    return keyed(matrix, pd.DataFrame(rows), ["models", "r", "r2", "p_value", "why"], model=False)


def _profiles(one: Given, tasks: Sequence[str]) -> Floats:
    """Return the fragility (F, k) of `tasks`, in this order, in the mean over seeds."""
    performance = relative(one.pruned(), one.unpruned()[:, None]).mean(axis=0)
    return fragility(performance)[:, [one.tasks.index(task) for task in tasks]]
