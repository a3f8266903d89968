"""Cross-validation over stimuli: whole passages in contiguous folds, nuisance learnt in training only.

Responses to neighbouring stimuli, and the sentences of a passage, resemble each other. Folds that
ignore this test on what was all but trained on, and make every model look good. Where contiguous folds
meet, neighbours are still on both sides: in continuous speech or text, scores keep a little of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating]

#: standard deviation, as part of the largest value, below which a column counts as constant
CONSTANT = 1e-5
#: columns that are multiplied at a time
BLOCK = 16384


def contiguous(passages: Sequence[object], folds: int) -> NDArray[np.intp]:
    """The fold of every stimulus: passages in order, and whole, about as many stimuli in each fold.

    Parameters
    ----------
    passages : (n,)
        In the order of presentation; at least `folds` distinct ones. A passage whose stimuli lie apart
        counts where it begins.
    folds : int

    Returns
    -------
    (n,)
        0 ... folds - 1, none of them empty.
    """
    passage, names = pd.factorize(np.asarray(passages, dtype=object))
    if len(names) < folds:
        raise ValueError(f"{folds} folds need as many passages, not {len(names)}")
    sizes = np.bincount(passage)
    middles = np.cumsum(sizes) - sizes / 2
    fold = np.empty(len(names), dtype=np.intp)
    last = -1
    for i, wanted in enumerate((folds * middles / sizes.sum()).astype(int)):
        # no fold is skipped, and enough passages are left for those to come
        last = fold[i] = min(max(wanted, folds - len(names) + i), last + 1)
    return fold[passage]


def inner_folds(folds: int) -> int:
    """Folds within a training part: one less than of all stimuli, but at least two."""
    return max(2, folds - 1)


@dataclass(frozen=True)
class Split:
    """Stimuli to train on and stimuli held out, and the nuisance of all.

    Attributes
    ----------
    train : (n,)
        Positions among all N stimuli.
    test : (m,)
        The same.
    design : (N, 1 + nuisance)
        A column of ones, and a column for each regressor.
    """

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    design: Floats

    @cached_property
    def solver(self) -> Floats:
        """(1 + nuisance, n): times the training values, the coefficients of the design."""
        return np.linalg.pinv(self.design[self.train])

    @cached_property
    def freedom(self) -> int:
        """What the design leaves of n degrees of freedom."""
        return len(self.train) - int(np.linalg.matrix_rank(self.design[self.train]))

    def standardised(self, values: Floats) -> tuple[Floats, Floats]:
        """`values` (N, columns) without nuisance, in training standard deviations.

        Coefficients of the nuisance, means and standard deviations are those of the training part.

        Returns
        -------
        (n, columns), (m, columns)
            float32; 0 in columns that are constant in training.
        """
        train, test = (values[rows].astype(np.float32) for rows in (self.train, self.test))
        size = np.abs(train).max(axis=0)
        design = self.design.astype(np.float32)
        coefficients = self.solver.astype(np.float32) @ train
        train -= design[self.train] @ coefficients
        test -= design[self.test] @ coefficients
        deviation = train.std(axis=0)
        scale = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > CONSTANT * size)
        train *= scale
        test *= scale
        return train, test

    def gram(self, gram: Floats) -> tuple[Floats, Floats]:
        """From the products X X' of features (N, N), those of the features without nuisance.

        Returns
        -------
        (n, n), (m, n)
            Training with training, and held-out with training stimuli.
        """
        rest = np.eye(len(gram))
        rest[:, self.train] -= self.design @ self.solver
        right = gram @ rest[self.train].T
        return rest[self.train] @ right, rest[self.test] @ right


def products(values: Floats, split: Split) -> Floats:
    """Mean over standardised columns of `values` (N, columns) of the products of all stimuli (N, N)."""
    total = np.zeros((len(values), len(values)))
    rows = np.concatenate([split.train, split.test])
    for start in range(0, values.shape[1], BLOCK):
        block = np.concatenate(split.standardised(values[:, start : start + BLOCK]))
        total[np.ix_(rows, rows)] += block @ block.T
    return total / max(values.shape[1], 1)


def whole(design: Floats) -> Split:
    """All stimuli as the training part, none held out."""
    return Split(np.arange(len(design)), np.arange(0), design)


def splits(passages: Sequence[object], nuisance: ArrayLike, folds: int) -> list[Split]:
    """A split for each fold, in order.

    Parameters
    ----------
    passages : (N,)
    nuisance : (N, regressors)
    folds : int
    """
    regressors = np.asarray(nuisance, dtype=float).reshape(len(passages), -1)
    # the column of ones makes up for this; without it single precision would not do for large numbers
    regressors = regressors - regressors.mean(axis=0)
    deviation = regressors.std(axis=0)
    regressors = np.divide(regressors, deviation, out=np.zeros_like(regressors), where=deviation > 0)
    design = np.column_stack([np.ones(len(passages)), regressors])
    fold = contiguous(passages, folds)
    return [Split(np.flatnonzero(fold != f), np.flatnonzero(fold == f), design) for f in range(folds)]
