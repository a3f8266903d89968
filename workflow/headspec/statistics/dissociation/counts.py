"""Pruning matrices from numbers of right answers, which do not show which examples fail together.

Without examples, the answers to an example with different heads pruned cannot be paired. They are drawn as if
lists of heads failed independently, so that intervals are too wide where the same examples are hard for all
lists, or as if all failed the same examples, which gives the narrowest intervals. Sizes of one list and seeds
always fail the same examples here, so that their errors do not average out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.seeds import derive
from headspec.statistics.dissociation.matrices import ResampledMatrix, TaskScores

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def counted_matrices(
    runs: Sequence[Run],
    unpruned: Counts,
    right: Counts,
    n: Counts,
    chance: Floats,
    resamples: int,
    confidence: float,
    seed: int,
    same: bool = False,
) -> list[ResampledMatrix]:
    """Return the pruning matrices of S runs of the same k tasks, resampled from counts.

    The bootstrap is binomial. In a permutation, all answers to a task at one size are dealt to the k lists at
    random.

    Parameters
    ----------
    unpruned : (S, k), right answers without pruning
    right : (S, F, k, k), with the heads of a task (third axis) pruned, to an evaluated task (last axis)
    n : (k,), answers
    chance : (k,), share of right answers that needs no model
    same : whether all lists fail the same examples as far as they can, instead of independently
    """
    seeds, sizes, k, _ = right.shape
    by_task = []
    for i, task in enumerate(runs[0].tasks):
        rng = np.random.default_rng(derive(seed, "counts", task, "bootstrap"))
        masks = [unpruned[:, i], *right[..., i].transpose(2, 0, 1).reshape(k, -1)]  # (S,), then (S * F,) each
        ends = np.cumsum([len(mask) for mask in masks])[:-1]
        if same:
            drawn = np.split(nested(np.concatenate(masks), int(n[i]), resamples, rng), ends, axis=1)
        else:
            drawn = [nested(mask, int(n[i]), resamples, rng) for mask in masks]
        rng = np.random.default_rng(derive(seed, "counts", task, "permutation"))
        null = dealt(right[..., i].sum(axis=2).ravel(), k, int(n[i]), resamples, rng)
        base = drawn[0]  # (resamples, S)
        pruned = np.stack(drawn[1:], axis=1).reshape(resamples, k, seeds, sizes)
        floor = np.quantile(pruned, 1 - confidence, axis=0) <= chance[i]
        by_task.append(
            (base, pruned, null.reshape(resamples, seeds, sizes, k), floor.any(axis=0),
             np.quantile(base, 1 - confidence, axis=0) <= chance[i])
        )  # fmt: skip
    return [
        ResampledMatrix.of_tasks(
            run,
            "",
            [
                TaskScores(
                    point=np.append(unpruned[s, i], right[s, :, :, i].T) / n[i],
                    bootstrap=np.column_stack([base[:, s], pruned[:, :, s].reshape(resamples, -1)]),
                    null=null[:, s],
                    at_chance=floor[s],
                    unpruned_at_chance=unlearnt[s],
                    below_chance=np.False_,
                    chance=float(chance[i]),
                )
                for i, (base, pruned, null, floor, unlearnt) in enumerate(by_task)
            ],
        )
        for s, run in enumerate(runs)
    ]


def nested(right: Counts, n: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Return shares (resamples, m) right, where m masks fail the same of n examples if possible."""
    levels, index = np.unique(right, return_inverse=True)
    steps = np.diff(levels, prepend=0, append=n)  # examples that fail from one mask to the next
    drawn = rng.multinomial(n, steps / n, size=resamples).cumsum(axis=1)
    shares: Floats = drawn[:, index] / n
    return shares


def dealt(right: Counts, k: int, n: int, permutations: int, rng: np.random.Generator) -> Floats:
    """Return shares (permutations, m, k) if the m numbers `right` of k * n answers are dealt to k lists.

    All m numbers are dealt alike: the right answers of a number are among those of a larger one.
    """
    levels, index = np.unique(right, return_inverse=True)
    left = np.full((permutations, k), n)
    got = []
    for step in np.diff(levels, prepend=0):
        remaining = np.full(permutations, step)
        for place in range(k - 1):
            drawn = rng.hypergeometric(left[:, place], left[:, place + 1 :].sum(axis=1), remaining)
            remaining -= drawn
            left[:, place] -= drawn
        left[:, -1] -= remaining
        got.append(n - left)
    shares: Floats = np.stack(got, axis=1)[:, index] / n
    return shares
