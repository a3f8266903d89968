"""Regression of voxels on vectors by ridge, and encoding scores (Luo et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headspec.similarity.brain.folds import CONSTANT, Split

Floats = NDArray[np.floating]

#: candidate penalties, relative to the mean over stimuli of the features' sum of squares
PENALTIES = np.logspace(-4, 5, 19)
#: voxels predicted at a time
BLOCK = 1024


@dataclass(frozen=True)
class Ridge:
    """Ridge regression from the singular value decomposition X = U S V' of n training stimuli."""

    basis: Floats  # (n, k), U
    squares: Floats  # (k,), S squared
    transfer: Floats  # (m, k), X* V S with the features X* of the held-out stimuli
    freedom: int  # of the responses: n minus those of intercept and nuisance

    @classmethod
    def from_features(cls, train: Floats, test: Floats, freedom: int) -> Ridge:
        """Prepare from features (n, d) and (m, d), with mean and nuisance removed."""
        if train.shape[0] <= train.shape[1]:
            double = train.astype(np.float64)
            return cls.from_gram(double @ double.T, test @ double.T, freedom)
        basis, values, rotation = np.linalg.svd(train, full_matrices=False)
        return cls(basis, values**2, (test @ rotation.T) * values, freedom)

    @classmethod
    def from_gram(cls, train: Floats, test: Floats, freedom: int) -> Ridge:
        """Prepare from products of features, X X' (n, n) and X* X' (m, n), with any number of features."""
        squares, basis = np.linalg.eigh(train)
        arrays = (basis, squares.clip(0), test @ basis)
        basis, squares, transfer = (array.astype(np.float32) for array in arrays)
        return cls(basis, squares, transfer, freedom)

    @property
    def penalties(self) -> Floats:
        """`PENALTIES` for these features, (penalties,)."""
        mean = self.squares.sum() / len(self.basis) or 1.0  # 0 if nuisance explains the features entirely
        return (PENALTIES * mean).astype(self.squares.dtype)

    def gcv(self, total: Floats, inside: Floats) -> Floats:
        """Score of generalised cross-validation, (penalties, voxels), up to a factor.

        Residual sum of squares / squared residual degrees of freedom (Golub, Heath & Wahba 1979), from the
        sums of squares of responses `total` (voxels,) and squares of U' responses `inside` (k, voxels).
        """
        penalties = self.penalties[:, None]
        residual = penalties / (self.squares + penalties)  # fraction of each direction of U
        complete = self.basis.shape[1] == len(self.basis)
        outside = 0.0 if complete else np.maximum(total - inside.sum(axis=0), 0)
        freedom = self.freedom - (1 - residual).sum(axis=1, keepdims=True)
        return (residual**2 @ inside + outside) / freedom**2

    def predict(self, responses: Floats) -> Floats:
        """Predict responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli.

        Generalised cross-validation in the training part chooses each voxel's penalty, which comes out too
        low where neighbouring stimuli are correlated.
        """
        predicted = np.empty((len(self.transfer), responses.shape[1]), self.transfer.dtype)
        for start in range(0, responses.shape[1], BLOCK):
            block = responses[:, start : start + BLOCK]
            projected = self.basis.T @ block
            gcv = self.gcv((block**2).sum(axis=0), projected**2)
            projected /= self.squares[:, None] + self.penalties[gcv.argmin(axis=0)]
            predicted[:, start : start + BLOCK] = self.transfer @ projected
        return predicted

    def weights(self, products: Floats) -> Floats:
        """Weights (m, n) of training responses in the predictions for held-out stimuli.

        Products (n, n) of the training responses determine one penalty for all voxels.
        """
        inside = ((self.basis.T @ products) * self.basis.T).sum(axis=1, keepdims=True)
        penalty = self.penalties[self.gcv(np.trace(products), inside).argmin()]
        return (self.transfer / (self.squares + penalty)) @ self.basis.T


class Regression(Protocol):
    """Maps responses to training stimuli to predicted responses to held-out stimuli."""

    def predict(self, responses: Floats) -> Floats:
        """Predict responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli."""


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
