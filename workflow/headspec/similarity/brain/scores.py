"""Encoding scores: correlation of predicted with measured responses (Luo et al. 2022)."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headspec.similarity.brain.folds import CONSTANT, Split

Floats = NDArray[np.floating]


class Regression(Protocol):
    """Maps responses to training stimuli to predicted responses to held-out stimuli."""

    def predict(self, responses: Floats) -> Floats: ...


def correlation(predicted: Floats, measured: Floats) -> Floats:
    """Pearson correlation of corresponding columns of two arrays (m, voxels); 0 where either is constant."""
    return (_unit(predicted) * _unit(measured)).sum(axis=0)


def _unit(values: Floats) -> Floats:
    """Columns scaled to mean 0 and length 1; 0 where they are constant."""
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
    """Encoding scores (models, voxels): mean r over the folds that select the voxel; nan where none does.

    A correlation over all folds at once would include the fold means: each is predicted from the other folds,
    so it is low where the measured mean is high, and pure noise would score below 0. Every model has a
    regression per split; `responses` are (stimuli, voxels), `selected` (folds, voxels).
    """
    total = np.zeros((len(regressions), responses.shape[1]))
    for i, (split, chosen) in enumerate(zip(splits, selected, strict=True)):
        train, test = split.standardised(responses if chosen.all() else responses[:, chosen])
        for row, model in zip(total, regressions, strict=True):
            row[chosen] += correlation(model[i].predict(train), test)
    folds = selected.sum(axis=0)
    return np.divide(total, folds, out=np.full_like(total, np.nan), where=folds > 0)
