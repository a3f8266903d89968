"""Ridge regression of many voxels at once, each with a penalty of its own, from one decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

#: penalties to choose from, as parts of the mean over stimuli of the features' sum of squares
PENALTIES = np.logspace(-4, 5, 19)
#: voxels that are regressed at a time
BLOCK = 1024


@dataclass(frozen=True)
class Ridge:
    """The singular value decomposition X = U S V' of n training stimuli, and what held-out ones make of it.

    Attributes
    ----------
    basis : (n, k)
        U.
    squares : (k,)
        S squared.
    transfer : (m, k)
        X* V S, where X* are the features of the held-out stimuli.
    freedom : int
        Degrees of freedom of the responses: n less those of intercept and nuisance.
    """

    basis: Floats
    squares: Floats
    transfer: Floats
    freedom: int

    @classmethod
    def of_features(cls, train: Floats, test: Floats, freedom: int) -> Ridge:
        """Of features (n, d) and (m, d), without mean and nuisance."""
        if train.shape[0] <= train.shape[1]:
            double = train.astype(np.float64)
            return cls.of_gram(double @ double.T, test @ double.T, freedom)
        basis, values, rotation = np.linalg.svd(train, full_matrices=False)
        return cls(basis, values**2, (test @ rotation.T) * values, freedom)

    @classmethod
    def of_gram(cls, train: Floats, test: Floats, freedom: int) -> Ridge:
        """Of products of features, X X' (n, n) and X* X' (m, n): the number of features does not matter."""
        squares, basis = np.linalg.eigh(train)
        parts = (basis, squares.clip(0), test @ basis)
        basis, squares, transfer = (part.astype(np.float32) for part in parts)
        return cls(basis, squares, transfer, freedom)

    @property
    def penalties(self) -> Floats:
        mean = self.squares.sum() / len(self.basis) or 1.0  # 0 where nuisance explains the features wholly
        return (PENALTIES * mean).astype(self.squares.dtype)

    def gcv(self, total: Floats, inside: Floats) -> Floats:
        """Generalised cross-validation (Golub, Heath & Wahba 1979), but for a factor.

        Parameters
        ----------
        total : (voxels,)
            Sum of squares of the responses.
        inside : (k, voxels)
            Squares of U' responses.

        Returns
        -------
        (penalties, voxels)
            Residual sum of squares / squared residual degrees of freedom.
        """
        penalties = self.penalties[:, None]
        left = penalties / (self.squares + penalties)  # of a direction, after shrinking
        complete = self.basis.shape[1] == len(self.basis)
        outside = 0.0 if complete else np.maximum(total - inside.sum(axis=0), 0)
        freedom = self.freedom - (1 - left).sum(axis=1, keepdims=True)
        return (left**2 @ inside + outside) / freedom**2

    def predict(self, responses: Floats) -> Floats:
        """Responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli.

        Every voxel has the penalty that generalised cross-validation chooses within the training
        part. It takes neighbouring stimuli for independent, so where they are not, it chooses too low.
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
        """What predicts responses to held-out stimuli from those to training stimuli, (m, n).

        Parameters
        ----------
        products : (n, n)
            Products of the responses to training stimuli, from which one penalty is chosen for all
            voxels.
        """
        inside = ((self.basis.T @ products) * self.basis.T).sum(axis=1, keepdims=True)
        penalty = self.penalties[self.gcv(np.trace(products), inside).argmin()]
        return (self.transfer / (self.squares + penalty)) @ self.basis.T
