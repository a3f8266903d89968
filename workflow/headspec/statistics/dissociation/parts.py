"""Parts of a pruning matrix: strength of lists, fragility of tasks, and their interaction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.seeds import derive
from headspec.statistics.correlation import RANDOM, TOLERANCE, renamings, standardised
from headspec.statistics.dissociation.matrices import ResampledMatrix
from headspec.statistics.dissociation.scores import relative

Floats = NDArray[np.float64]

SOURCE, TARGET, OWN, REST = "source", "target", "own", "rest"
PARTS = (SOURCE, TARGET, OWN, REST)
#: fewest tasks to tell fragility from the strength of lists
FEWEST_TASKS = 3


def sums_of_squares(performance: Floats) -> Floats:
    """Return sums of squares (..., 4) of `PARTS` of matrices (..., k, k), with a row for each list of heads.

    They are those of a two-way table without replication. Of what lists and tasks leave, `own` is the part of
    the diagonal: what lists cost their own task more, or less, than others.
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
    """Return what other tasks' lists cost each task, net of their strengths, (..., k); nan with two tasks.

    These are the least-squares effects of tasks, with mean 0, in matrices (..., k, k) without diagonals.
    """
    k = performance.shape[-1]
    if k < FEWEST_TASKS:
        return np.full(performance.shape[:-1], np.nan)
    off = np.where(np.eye(k, dtype=bool), 0, 1 - performance)
    by_list, by_task = (off.sum(axis=axis) for axis in (-1, -2))
    effects = (k - 1) * by_task + by_list
    centred: Floats = (effects - effects.mean(axis=-1, keepdims=True)) / (k * (k - 2))
    return centred


def p_specific(performance: Floats, seed: int) -> float:
    """Return the one-sided p of a matrix (k, k) that lists cost their own tasks no more than others' lists.

    What each list costs a task is in standard deviations over lists, so that neither strong lists nor fragile
    tasks count, whether they add up or multiply. The diagonal is compared with those after renaming sources,
    in all k! ways up to eight tasks, else in `RANDOM` random ways. p is nan if a value is not finite.
    """
    if not np.isfinite(performance).all():
        return np.nan
    k, cost = len(performance), performance.mean(axis=0) - performance
    spread = performance.std(axis=0)
    scaled = np.divide(cost, spread, out=np.zeros_like(cost), where=spread > TOLERANCE)
    diagonals = scaled[renamings(k, seed), np.arange(k)].sum(axis=1)  # the first renaming is none
    return float(np.mean(diagonals >= diagonals[0] - TOLERANCE))


def least_p(k: int) -> float:
    """Return the smallest possible `p_specific` of k tasks."""
    return 1 / min(math.factorial(k), 1 + RANDOM)


def parts_of(
    seeds: Sequence[ResampledMatrix], size: int, seed: int, same: Sequence[ResampledMatrix] = ()
) -> list[dict[str, Any]]:
    """Return a row for each of `PARTS` of the mean matrix over seeds, at one size; see `decompose`.

    `same` are the matrices where all lists fail the same examples, if examples of `seeds` are not known. The
    bootstrap of 'target' then uses them, in which the means of tasks vary most: with lists that fail
    independently, equally fragile tasks would differ in up to 75 % of matrices.
    """
    performance = mean_matrix(seeds, size)
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
        row: dict[str, Any] = {"part": part, "share": np.nan, "by_chance": np.nan, "p_value": np.nan}
        if total > 0:  # neither constant nor nan
            row["share"] = value / total
        if total > 0 and drawn is not None and (sampled or part == OWN):
            row["by_chance"] = drawn.mean() / total
            reached = np.count_nonzero(drawn >= value * (1 - TOLERANCE))
            row["p_value"] = (1 + reached) / (1 + len(drawn))
        if total > 0 and part == OWN:
            row["p_value"] = p_specific(performance, seed)
        rows.append(row)
    return rows


def mean_matrix(seeds: Sequence[ResampledMatrix], size: int) -> Floats:
    """Return the mean matrix of relative performance over seeds, (k, k), at one size."""
    return _mean([relative(one.matrix[size], one.base) for one in seeds])


def _mean(values: Sequence[Floats]) -> Floats:
    mean: Floats = np.mean(values, axis=0)
    return mean


def agreement(profiles: Floats, seed: int) -> tuple[float, float]:
    """Return the mean correlation of profiles (models, k) over pairs of models, and its one-sided p.

    The tasks of all models but the first are renamed, in all ways for two models of up to eight tasks, else
    in `RANDOM` random ways. Both are nan if a profile is constant.
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


def agreements(profiles: Mapping[str, Floats], seed: int) -> list[dict[str, Any]]:
    """Return a row for each pair of models, and one for all of three or more; see `shared_fragility`.

    `profiles` maps models to fragilities (k,) of the same tasks.
    """
    groups = [*itertools.combinations(profiles, 2)] + ([tuple(profiles)] if len(profiles) > 2 else [])
    found = [(names, *agreement(np.stack([profiles[name] for name in names]), seed)) for names in groups]
    return [
        {"models": ", ".join(names), "n_models": len(names), "r": r, "r2": r**2, "p_value": p}
        for names, r, p in found
    ]
