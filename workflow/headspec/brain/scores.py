"""Encoding scores: how well predicted responses agree with measured ones (Luo et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headspec.brain.folds import CONSTANT, Split

Floats = NDArray[np.floating]


class Regression(Protocol):
    """Features of training and held-out stimuli; of responses to the first it makes those to the others."""

    def predict(self, responses: Floats) -> Floats: ...


def correlation(predicted: Floats, measured: Floats) -> Floats:
    """Pearson correlation of every column of two arrays (m, voxels); 0 where either is constant."""
    return (_unit(predicted) * _unit(measured)).sum(axis=0)


def _unit(values: Floats) -> Floats:
    """Columns with mean 0 and length 1, or 0 where they are constant."""
    centred = values - values.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    varies = length > CONSTANT * np.abs(values).max(axis=0)
    centred *= np.divide(1, length, out=np.zeros_like(length), where=varies)
    return centred


def encode(
    regressions: Sequence[Sequence[Regression]],
    splits: Sequence[Split],
    responses: Floats,
    selected: NDArray[np.bool_],
) -> Floats:
    """Encoding scores of a subject's voxels: mean r over the folds in which each is selected.

    Correlations are taken within a fold and then averaged. Over all folds at once the mean of each
    would enter: it is predicted from the other folds, so that it is low where the measured one is
    high, and pure noise would score below 0.

    Parameters
    ----------
    regressions : of every model, one for each split
    splits : folds
    responses : (stimuli, voxels)
    selected : (folds, voxels)

    Returns
    -------
    (models, voxels)
        nan where the voxel is selected in no fold.
    """
    total = np.zeros((len(regressions), responses.shape[1]))
    for i, (split, part) in enumerate(zip(splits, selected, strict=True)):
        train, test = split.standardised(responses if part.all() else responses[:, part])
        for row, model in zip(total, regressions, strict=True):
            row[part] += correlation(model[i].predict(train), test)
    folds = selected.sum(axis=0)
    return np.divide(total, folds, out=np.full_like(total, np.nan), where=folds > 0)
