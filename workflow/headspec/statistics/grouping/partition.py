"""Partitions of tasks among encoders, by the gains of pairs.

The gain of a target is the mean of its gains from the partners in its group (Fifty et al. 2021), or 0 if it
is alone. The value of a partition is the mean over all tasks. Groups are sorted tuples of task indices.
"""

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import MEAN

Floats = NDArray[np.float64]
Partition = tuple[tuple[int, ...], ...]

#: maximum number of tasks for which all partitions are tried
EXACT = 12


class Value(NamedTuple):
    """Mean gain over tasks, with its interval; nan if a gain is unknown."""

    gain: float
    low: float
    high: float


def weights(partition: Partition, k: int) -> Floats:
    """Return weights (k, k), [source, target], of gains in the value of a partition."""
    by_pair = np.zeros((k, k))
    for group in partition:
        for source, target in itertools.permutations(group, 2):
            by_pair[source, target] = 1 / (len(group) - 1) / k
    return by_pair


def value(weights: Floats, gain: Floats, low: Floats, high: Floats) -> Value:
    """Return the value of weighted gains; weights may be means or differences over partitions.

    Errors of gains of one target, which share its single-task run, add up; those of different targets are
    independent, and their intervals are combined by MOVER (Zou & Donner 2008). All arguments are (k, k).
    """
    used = weights != 0
    center, below, above = (np.where(used, values, 0.0) for values in (gain, gain - low, high - gain))
    total = float((weights * center).sum())
    down = np.where(weights > 0, below, above)
    up = np.where(weights > 0, above, below)
    reach = [float(np.sqrt(((np.abs(weights) * side).sum(axis=0) ** 2).sum())) for side in (down, up)]
    return Value(total, total - reach[0], total + reach[1])


def best_partition(gain: Floats, encoders: int, seed: int = 0) -> tuple[Partition, bool]:
    """Return the partition into at most `encoders` groups with the highest value, and whether it is exact.

    With up to twelve tasks, all partitions are tried, by dynamic programming over sets of tasks; with more,
    they are searched by annealing with `seed`. A group with an unknown gain (nan) is chosen only if every
    partition has one. `gain` is (k, k), [source, target].
    """
    if len(gain) > EXACT:
        return _annealed(gain, encoders, seed), False
    k = len(gain)
    sets = np.arange(2**k)
    values = _group_values(gain, (sets[:, None] >> np.arange(k)) & 1)
    subsets: list[NDArray[np.intp]] = [np.zeros(1, dtype=np.intp)]
    best, choice = values, [sets]
    for number in sets[1:]:
        low = number & -number
        rest = subsets[number ^ low]
        subsets.append(np.concatenate([rest, rest | low]))
    for _ in range(encoders - 1):
        next_best, taken = best.copy(), sets.copy()
        for number in sets[1:]:
            low = number & -number
            parts = subsets[number ^ low] | low  # groups of the first task
            totals = values[parts] + best[number ^ parts]
            taken[number] = parts[totals.argmax()]
            next_best[number] = totals.max()
        best, choice = next_best, [*choice, taken]
    groups, left = [], 2**k - 1
    for taken in reversed(choice):
        group, left = taken[left], left ^ taken[left]
        if group:
            groups.append(tuple(task for task in range(k) if group >> task & 1))
    return tuple(sorted(groups)), True


def _group_values(gain: Floats, members: NDArray[np.integer]) -> Floats:
    """Return the summed gains of every group in `members` (groups, k); -inf where one is unknown."""
    known = np.nan_to_num(gain)
    unknown = np.isnan(gain) & ~np.eye(len(gain), dtype=bool)
    totals = np.einsum("gs,st,gt->g", members, known, members)
    lacking = np.einsum("gs,st,gt->g", members, unknown.astype(int), members) > 0
    return np.where(lacking, -np.inf, totals / np.maximum(members.sum(axis=1) - 1, 1))


def _annealed(gain: Floats, encoders: int, seed: int) -> Partition:
    """Return a good partition, found by simulated annealing."""
    from scipy.optimize import dual_annealing

    k = len(gain)

    def loss(place: Floats) -> float:
        members = np.minimum(place.astype(int), encoders - 1) == np.arange(encoders)[:, None]
        total = _group_values(gain, members.astype(int)).sum()
        return -total if np.isfinite(total) else 1e6

    annealed = dual_annealing(loss, [(0, encoders)] * k, seed=seed)
    return partition(np.minimum(annealed.x.astype(int), encoders - 1))


def partition(labels: Sequence[int] | NDArray[np.integer]) -> Partition:
    """Return the partition of tasks by their labels (k,)."""
    groups: dict[int, list[int]] = {}
    for task, label in enumerate(labels):
        groups.setdefault(int(label), []).append(task)
    return tuple(map(tuple, groups.values()))


def random_partitions(k: int, encoders: int, number: int, seed: int) -> list[Partition]:
    """Return random partitions of k tasks into exactly `encoders` groups, all of them equally likely."""
    rng = np.random.default_rng(seed)
    ways = _stirling_numbers(k, encoders)
    partitions = []
    for _ in range(number):
        left, first = encoders, []  # whether a task is the first of its group, from the last task on
        for task in reversed(range(k)):
            first.append(rng.random() < ways[task][left - 1] / ways[task + 1][left])
            left -= first[-1]
        labels: list[int] = []
        for begins in reversed(first):
            groups = max(labels, default=-1) + 1
            labels.append(groups if begins else int(rng.integers(groups)))
        partitions.append(partition(labels))
    return partitions


def _stirling_numbers(k: int, encoders: int) -> list[list[int]]:
    """Return the numbers of partitions of 0 to k tasks (rows) into 0 to `encoders` groups."""
    rows = [[1] + [0] * encoders]
    for _ in range(k):
        last = rows[-1]
        rows.append([0] + [last[m - 1] + m * last[m] for m in range(1, encoders + 1)])
    return rows


def trained(gains: pd.DataFrame, groups: Sequence[Collection[str]]) -> Value | None:
    """Return the mean gain over the tasks of groups that were trained, from the table `gains` of a model.

    It is None if a group of several tasks was not trained. Errors of groups, which share no runs, are
    independent.
    """
    rows = gains[gains["method"] == "tuned"]
    means = {row["mixture"]: row for row in rows[rows["task"] == MEAN].to_dict("records")}
    members = rows[rows["task"] != MEAN].groupby("mixture")["task"].agg(frozenset)
    names = {tasks: mixture for mixture, tasks in members.items()}
    number = sum(map(len, groups))
    total, below, above = 0.0, 0.0, 0.0
    for group in groups:
        if len(group) > 1:
            if (row := means.get(names.get(frozenset(group)))) is None:
                return None
            share = len(group) / number
            total += share * row["difference"]
            below += (share * (row["difference"] - row["ci_low"])) ** 2
            above += (share * (row["ci_high"] - row["difference"])) ** 2
    return Value(total, total - below**0.5, total + above**0.5)
