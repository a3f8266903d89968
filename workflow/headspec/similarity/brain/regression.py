"""Regression of voxels on vectors by ridge or a small network, and encoding scores (Luo et al. 2022).

The network has the hidden layer of Luo et al. Unlike theirs, training stops at the lowest error on the last
tenth of the training stimuli, and predictions rather than scores are averaged over initialisations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from headspec.seeds import derive
from headspec.similarity.brain.folds import CONSTANT, Split

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.floating]

#: candidate penalties, relative to the mean over stimuli of the features' sum of squares
PENALTIES = np.logspace(-4, 5, 19)
#: number of voxels predicted at a time
BLOCK = 1024


@dataclass(frozen=True)
class Ridge:
    """Ridge regression from the singular value decomposition X = U S V' of n training stimuli."""

    basis: Floats  # (n, k), U
    squares: Floats  # (k,), S squared
    transfer: Floats  # (m, k), X* V S with the features X* of the held-out stimuli
    freedom: int  # degrees of freedom of the responses: n minus those of intercept and nuisance

    @classmethod
    def from_features(cls, train: Floats, test: Floats, freedom: int) -> Ridge:
        """Prepare from features of training (n, d) and held-out stimuli (m, d), without mean and nuisance."""
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
        """Return the score of generalised cross-validation, (penalties, voxels), up to a factor.

        It is the residual sum of squares / squared residual degrees of freedom (Golub, Heath & Wahba 1979).
        `total` (voxels,) are sums of squares of the responses, `inside` (k, voxels) squares of U' times them.
        """
        penalties = self.penalties[:, None]
        residual = penalties / (self.squares + penalties)  # fraction of each direction of U
        complete = self.basis.shape[1] == len(self.basis)
        outside = 0.0 if complete else np.maximum(total - inside.sum(axis=0), 0)
        freedom = self.freedom - (1 - residual).sum(axis=1, keepdims=True)
        score: Floats = (residual**2 @ inside + outside) / freedom**2
        return score

    def predict(self, responses: Floats) -> Floats:
        """Predict responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli.

        Generalised cross-validation in the training part chooses each voxel's penalty; it chooses too low a
        penalty where neighbouring stimuli are correlated.
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
        """Return the weights (m, n) of the training responses in predictions for held-out stimuli.

        The Gram matrix `products` (n, n) of the training responses determines one penalty for all voxels.
        """
        inside = ((self.basis.T @ products) * self.basis.T).sum(axis=1, keepdims=True)
        penalty = self.penalties[self.gcv(np.trace(products), inside).argmin()]
        weights: Floats = (self.transfer / (self.squares + penalty)) @ self.basis.T
        return weights


class Regression(Protocol):
    """Maps responses to training stimuli to predicted responses to held-out stimuli."""

    def predict(self, responses: Floats) -> Floats:
        """Predict responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli."""


def correlation(predicted: Floats, measured: Floats) -> Floats:
    """Return Pearson's r of corresponding columns of two arrays (m, voxels); 0 where either is constant."""
    r: Floats = (_unit(predicted) * _unit(measured)).sum(axis=0)
    return r


def _unit(values: Floats) -> Floats:
    """Return columns with mean 0 and length 1; constant columns become 0."""
    centred: Floats = values - values.mean(axis=0)
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
    """Return scores (models, voxels): mean r over the folds that select the voxel; nan where none does.

    A correlation over all folds at once would include the fold means: each is predicted from the other folds,
    and is therefore low where the measured mean is high, so that pure noise would score below 0. Every model
    has a regression per split; `responses` are (stimuli, voxels), `selected` is bool (folds, voxels).
    """
    total = np.zeros((len(regressions), responses.shape[1]))
    for i, (split, chosen) in enumerate(zip(splits, selected, strict=True)):
        train, test = split.standardised(responses if chosen.all() else responses[:, chosen])
        for row, model in zip(total, regressions, strict=True):
            row[chosen] += correlation(model[i].predict(train), test)
    folds = selected.sum(axis=0)
    scores: Floats = np.divide(total, folds, out=np.full_like(total, np.nan), where=folds > 0)
    return scores


HIDDEN = 200  # units of the hidden layer, with ReLU (Luo et al. 2022)
SEEDS = 5  # initialisations whose predictions are averaged
LEARNING_RATE, BATCH = 1e-3, 32  # of Adam
EPOCHS, PATIENCE = 100, 5  # maximum; epochs without a lower validation error before training stops
VALIDATION = 0.1  # fraction of the training stimuli, taken from the end


@dataclass(frozen=True)
class Network:
    """A network with one hidden layer from features (n, d) of training stimuli, in order, to all voxels."""

    train: Floats
    test: Floats
    seed: int

    def predict(self, responses: Floats) -> Floats:
        """Predict responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli."""
        import torch

        train, test, measured = (
            torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
            for values in (self.train, self.test, responses)
        )
        fits = (_fit(train, test, measured, derive(self.seed, "network", seed)) for seed in range(SEEDS))
        return (sum(fits, torch.zeros(())) / SEEDS).numpy()


def _fit(train: torch.Tensor, test: torch.Tensor, responses: torch.Tensor, seed: int) -> torch.Tensor:
    """Return the predictions (m, voxels) of one network at the epoch with the lowest validation error."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = train.shape[1], responses.shape[1]
        model = nn.Sequential(nn.Linear(sizes[0], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, sizes[1]))
        aside = max(1, int(VALIDATION * len(train)))
        optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE)
        best, predicted, waited = np.inf, torch.zeros(len(test), sizes[1]), 0
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(train) - aside).split(BATCH):
                optimiser.zero_grad()
                nn.functional.mse_loss(model(train[batch]), responses[batch]).backward()
                optimiser.step()
            with torch.no_grad():
                error = nn.functional.mse_loss(model(train[-aside:]), responses[-aside:]).item()
                waited += 1
                if error < best:
                    best, predicted, waited = error, model(test), 0
            if waited == PATIENCE:
                break
    return predicted
