"""Regression by a small network instead of ridge, with the hidden layer of Luo et al. (2022).

Unlike theirs, training stops at the lowest error on the last tenth of the training stimuli, and predictions
of several initialisations are averaged, not their scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headspec.seeds import derive

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.floating]

HIDDEN = 200  # units of the hidden layer, with ReLU (Luo et al. 2022)
SEEDS = 5  # initialisations whose predictions are averaged
LEARNING_RATE, BATCH = 1e-3, 32  # of Adam
EPOCHS, PATIENCE = 100, 5  # at most; epochs without a lower validation error before training stops
VALIDATION = 0.1  # fraction of the training stimuli, taken from the end


@dataclass(frozen=True)
class Network:
    """A network with one hidden layer, from features (n, d) of training stimuli, in order, to all voxels."""

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
    """Predictions (m, voxels) of one network at the epoch with the lowest validation error."""
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
