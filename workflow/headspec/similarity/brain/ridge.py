"""Ridge regression of many voxels, with a penalty for each, from a single decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
