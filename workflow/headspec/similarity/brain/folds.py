"""Cross-validation over stimuli: contiguous folds of whole passages, nuisance fitted in training only.

Responses to neighbouring stimuli, and to the sentences of a passage, resemble each other: with other folds,
test stimuli would be near copies of training stimuli. Neighbours still meet at the edges of folds, so some
bias remains for continuous speech or text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating]

#: a column counts as constant if its standard deviation is below this fraction of its largest value
CONSTANT = 1e-5
#: number of columns multiplied at a time
BLOCK = 16384


def contiguous(passages: Sequence[object], folds: int) -> NDArray[np.intp]:
    """Return the fold of each stimulus, (n,): contiguous, of whole passages and about equal size, none empty.

    `passages` (n,) are in the order of presentation; a passage whose stimuli are scattered counts at the
    position of the first. Raises ValueError if there are fewer distinct passages than `folds`.
    """
    passage, names = pd.factorize(np.asarray(passages, dtype=object))
    if len(names) < folds:
        raise ValueError(f"got {len(names)} passages, expected at least {folds}, the number of folds")
    sizes = np.bincount(passage)
    middles = np.cumsum(sizes) - sizes / 2
    fold = np.empty(len(names), dtype=np.intp)
    last = -1
    for i, target in enumerate((folds * middles / sizes.sum()).astype(int)):
        # skip no fold, and leave enough passages for the remaining folds
        last = fold[i] = min(max(target, folds - len(names) + i), last + 1)
    return fold[passage]


def inner_folds(folds: int) -> int:
    """Return the number of folds within a training part: one fewer than in all, but at least two."""
    return max(2, folds - 1)


@dataclass(frozen=True)
class Split:
    """Training stimuli, held-out stimuli, and the nuisance regressors of all."""

    train: NDArray[np.intp]  # (n,), positions among all N stimuli
    test: NDArray[np.intp]  # (m,), positions among all N stimuli
    design: Floats  # (N, 1 + nuisance), a column of ones, then one per regressor

    @cached_property
    def solver(self) -> Floats:
        """(1 + nuisance, n): maps training values to the coefficients of the design."""
        return np.linalg.pinv(self.design[self.train])

    @cached_property
    def freedom(self) -> int:
        """Residual degrees of freedom: n minus the rank of the design."""
        return len(self.train) - int(np.linalg.matrix_rank(self.design[self.train]))

    def standardised(self, values: Floats) -> tuple[Floats, Floats]:
        """Return training and held-out rows of `values` (N, columns) without nuisance, with variance 1.

        Both are float32. Coefficients, means and standard deviations are from the training stimuli; columns
        that are constant there become 0.
        """
        train, test = (values[rows].astype(np.float32) for rows in (self.train, self.test))
        largest = np.abs(train).max(axis=0)
        design = self.design.astype(np.float32)
        coefficients = self.solver.astype(np.float32) @ train
        train -= design[self.train] @ coefficients
        test -= design[self.test] @ coefficients
        deviation = train.std(axis=0)
        scale = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > CONSTANT * largest)
        train *= scale
        test *= scale
        return train, test

    def gram(self, gram: Floats) -> tuple[Floats, Floats]:
        """Remove nuisance from features X, given as products X X' (N, N).

        Returns products (n, n) of training stimuli, and (m, n) of held-out and training stimuli.
        """
        residual = np.eye(len(gram))
        residual[:, self.train] -= self.design @ self.solver
        with_train = gram @ residual[self.train].T
        return residual[self.train] @ with_train, residual[self.test] @ with_train


def products(values: Floats, split: Split) -> Floats:
    """Return the Gram matrix (N, N) of standardised `values` (N, columns), divided by the number of columns.

    Rows of stimuli in neither part of `split` are 0.
    """
    total: Floats = np.zeros((len(values), len(values)))
    rows = np.concatenate([split.train, split.test])
    for start in range(0, values.shape[1], BLOCK):
        block = np.concatenate(split.standardised(values[:, start : start + BLOCK]))
        total[np.ix_(rows, rows)] += block @ block.T
    total /= max(values.shape[1], 1)
    return total


def train_on_all(design: Floats) -> Split:
    """Return a split that trains on all stimuli, rows of `design` (N, 1 + nuisance), and holds out none."""
    return Split(np.arange(len(design)), np.arange(0), design)


def splits(passages: Sequence[object], nuisance: ArrayLike, folds: int) -> list[Split]:
    """Return one split per fold, from passages (N,) and nuisance (N, regressors); errors as `contiguous`."""
    regressors = np.asarray(nuisance, dtype=float).reshape(len(passages), -1)
    # given the column of ones, centring changes nothing, but keeps large numbers accurate in float32
    regressors = regressors - regressors.mean(axis=0)
    deviation = regressors.std(axis=0)
    regressors = np.divide(regressors, deviation, out=np.zeros_like(regressors), where=deviation > 0)
    design = np.column_stack([np.ones(len(passages)), regressors])
    fold = contiguous(passages, folds)
    return [Split(np.flatnonzero(fold != f), np.flatnonzero(fold == f), design) for f in range(folds)]
