"""What a pruning matrix is made of: strength of lists, fragility of tasks, and what is theirs together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.errors import listing
from headspec.seeds import derive
from headspec.statistics.correlation import RANDOM, TOLERANCE, mantel_p, renamings, standardised
from headspec.statistics.dissociation.given import Given, given, keyed
from headspec.statistics.dissociation.matrices import ResampledMatrix
from headspec.statistics.dissociation.notebook import given_matrices
from headspec.statistics.dissociation.scores import relative

Floats = NDArray[np.float64]

SOURCE, TARGET, OWN, REST = "source", "target", "own", "rest"
PARTS = (SOURCE, TARGET, OWN, REST)
#: fewest tasks to tell fragility from the strength of lists
FEWEST_TASKS = 3
#: fewest tasks whose renamings allow a p below 0.05: 4! = 24
FEWEST_RENAMED = 4


def sums_of_squares(performance: Floats) -> Floats:
    """Sums of squares (..., 4) of `PARTS` of matrices (..., k, k), a row for each list of heads.

    They are those of a two-way table without replication. Of what remains, `own` is the part of the diagonal:
    what lists cost their own task more, or less, than others.
    """
    k = performance.shape[-1]
    centred = performance - performance.mean(axis=(-2, -1), keepdims=True)
    lists, tasks = centred.mean(axis=-1), centred.mean(axis=-2)
    left = centred - lists[..., :, None] - tasks[..., None, :]
    own = np.square(np.trace(left, axis1=-2, axis2=-1)) / (k - 1)
    source, target = k * np.square(lists).sum(axis=-1), k * np.square(tasks).sum(axis=-1)
    rest = np.maximum(np.square(left).sum(axis=(-2, -1)) - own, 0)
    parts: Floats = np.stack([source, target, own, rest], axis=-1)
    return parts


def fragility(performance: Floats) -> Floats:
    """What lists of other tasks cost each task, net of their strengths, (..., k); nan with two tasks.

    The least-squares effects of tasks, with mean 0, in matrices (..., k, k) without their diagonals.
    """
    k = performance.shape[-1]
    if k < 3:
        return np.full(performance.shape[:-1], np.nan)
    off = np.where(np.eye(k, dtype=bool), 0, 1 - performance)
    by_list, by_task = (off.sum(axis=axis) for axis in (-1, -2))
    effects = (k - 1) * by_task + by_list
    centred: Floats = (effects - effects.mean(axis=-1, keepdims=True)) / (k * (k - 2))
    return centred


def parts_of(
    seeds: Sequence[ResampledMatrix], size: int, seed: int, same: Sequence[ResampledMatrix] = ()
) -> list[dict[str, Any]]:
    """Return a row for each of `PARTS` of the mean matrix over seeds, at one size; see `decompose`.

    `same` are the matrices where all lists fail the same examples, if `seeds` are not paired. Then the means
    of tasks vary most: taken as independent, equally fragile tasks would differ in up to 75 % of matrices.
    """
    performance = _mean([relative(one.matrix[size], one.base) for one in seeds])
    bootstrap = _mean([relative(one.bootstrap[:, size], one.bootstrap_base) for one in same or seeds])
    null = _mean([relative(one.null[:, size], one.base) for one in seeds])
    observed = sums_of_squares(performance)
    renamed = sums_of_squares(performance[renamings(len(performance), seed)])[:, 2]
    by_chance = {
        SOURCE: sums_of_squares(null)[:, 0],
        TARGET: sums_of_squares(bootstrap - performance)[:, 1],
        OWN: renamed,
    }
    sampled = len(bootstrap) > 1
    total, rows = observed.sum(), []
    for part, value in zip(PARTS, observed, strict=True):
        drawn = by_chance.get(part)
        row = {"part": part, "share": value / total if total > 0 else np.nan}
        if part == OWN:
            row |= {"by_chance": renamed.mean() / total, "p_value": mantel_p(renamed)}
        elif drawn is not None and sampled:
            reached = np.count_nonzero(drawn >= value * (1 - TOLERANCE))
            row |= {"by_chance": drawn.mean() / total, "p_value": (1 + reached) / (1 + len(drawn))}
        rows.append(row)
    return rows


def _mean(values: Sequence[Floats]) -> Floats:
    mean: Floats = np.mean(values, axis=0)
    return mean


def agreement(profiles: Floats, seed: int) -> tuple[float, float]:
    """Mean correlation of the profiles (models, k) of pairs of models, and its one-sided p.

    The tasks of all models but the first are renamed: all ways of two models of up to eight tasks, otherwise
    `RANDOM` random ones.
    """
    models, k = profiles.shape
    orders = renamings(k, seed)
    rng = np.random.default_rng(derive(seed, "models"))
    chosen = [np.arange(len(orders))]
    if models > 2:
        chosen = [np.append(0, rng.integers(len(orders), size=RANDOM)) for _ in range(1, models)]
    unit = [standardised(profile) for profile in profiles]
    renamed = [unit[0][None], *(one[orders[which]] for one, which in zip(unit[1:], chosen, strict=True))]
    r = np.mean([(a * b).sum(axis=-1) for a, b in itertools.combinations(renamed, 2)], axis=0)
    return float(r[0]), float(np.mean(r >= r[0] - TOLERANCE)) if np.isfinite(r[0]) else np.nan


def decompose(matrix: pd.DataFrame, *, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return what a pruning matrix is made of: its lists of heads, its tasks, and the pairs of both.

    Relative performance with the heads of task j pruned, at task i, has four parts of its sum of squares.

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
        - p_value: of 'source' that it makes no difference whose heads are pruned (permutation); of 'target'
          that no task loses more than another (bootstrap); of 'own' that a list is no more its own task's
          than another one's (sources renamed, all k! ways up to eight tasks); of these runs
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
    """Why parts have no p, or none below 0.05."""
    renamed = f"{k} tasks: no p below {1 / math.factorial(k):.2g}" if k < FEWEST_RENAMED else ""
    return [
        renamed if part == OWN else "neither n nor examples" if part != REST and np.isnan(p) else ""
        for part, p in zip(parts["part"], parts["p_value"], strict=True)
    ]


def shared_fragility(matrix: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Return whether the same tasks are fragile in several models.

    The fragility of a task is what lists of other tasks cost it, as a share of its unpruned performance, net
    of their strengths. Its mean over tasks and its spread, the size of effect in a model, are taken out.

    Parameters
    ----------
    matrix, seed : as in `dissociate`, with at least two models of the same three tasks or more

    Returns
    -------
    shared : DataFrame, a row for each size and pair of models, and one for all of three models or more

        - r, r2: Pearson correlation over tasks, and its square, of all models the mean r and its square
        - p_value: one-sided, that fragility in one model says nothing about another, tasks renamed
        - why: why there is no p below 0.05

    Raises
    ------
    ValueError
        As `dissociate`; there is one model, or models differ in tasks or sizes.
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
    groups = [*itertools.combinations(profiles, 2)] + ([tuple(profiles)] if len(profiles) > 2 else [])
    for place, size in enumerate(first.sizes):
        for names in groups:
            r, p = agreement(np.stack([profiles[name][place] for name in names]), seed)
            why = f"{k} tasks: no p below {1 / math.factorial(k):.2g}" if len(names) == 2 and k == 3 else ""
            rows.append(
                {"size": size, "models": ", ".join(names), "r": r, "r2": r**2, "p_value": p, "why": why}
            )
    return keyed(matrix, pd.DataFrame(rows), ["models", "r", "r2", "p_value", "why"], model=False)


def _profiles(one: Given, tasks: Sequence[str]) -> Floats:
    """Fragility (F, k) of `tasks`, the mean over seeds."""
    performance = relative(one.pruned(), one.unpruned()[:, None]).mean(axis=0)
    return fragility(performance)[:, [one.tasks.index(task) for task in tasks]]
