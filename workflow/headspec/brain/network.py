"""Regression by a small network in place of ridge, with the hidden layer of Luo et al. (2022).

Our own are the stop at the lowest error on the last tenth of the training stimuli, and that the predictions
of several initialisations are averaged instead of their scores.
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

HIDDEN = 200  # units of the one layer, with ReLU (Luo et al. 2022)
SEEDS = 5  # initialisations; their predictions are averaged
RATE, BATCH = 1e-3, 32  # of Adam
EPOCHS, PATIENCE = 100, 5  # at most; without a lower error on the stimuli kept aside
ASIDE = 0.1  # of the training stimuli, the last ones: when they say so, training stops


@dataclass(frozen=True)
class Network:
    """One hidden layer from features to all voxels at once, ready to be trained on responses.

    Attributes
    ----------
    train : (n, d)
        Features of the training stimuli, in order.
    test : (m, d)
    seed : int
    """

    train: Floats
    test: Floats
    seed: int

    def predict(self, responses: Floats) -> Floats:
        """Responses (m, voxels) to held-out stimuli from those (n, voxels) to training stimuli."""
        import torch

        train, test, measured = (
            torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
            for values in (self.train, self.test, responses)
        )
        fits = (_fit(train, test, measured, derive(self.seed, "network", seed)) for seed in range(SEEDS))
        return (sum(fits, torch.zeros(())) / SEEDS).numpy()


def _fit(train: torch.Tensor, test: torch.Tensor, responses: torch.Tensor, seed: int) -> torch.Tensor:
    """Predictions (m, voxels) of one network, at the epoch with the lowest error on the part kept aside."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = train.shape[1], responses.shape[1]
        model = nn.Sequential(nn.Linear(sizes[0], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, sizes[1]))
        kept = max(1, int(ASIDE * len(train)))
        optimiser = torch.optim.Adam(model.parameters(), RATE)
        best, predicted, waited = np.inf, torch.zeros(len(test), sizes[1]), 0
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(train) - kept).split(BATCH):
                optimiser.zero_grad()
                nn.functional.mse_loss(model(train[batch]), responses[batch]).backward()
                optimiser.step()
            with torch.no_grad():
                error = nn.functional.mse_loss(model(train[-kept:]), responses[-kept:]).item()
                waited += 1
                if error < best:
                    best, predicted, waited = error, model(test), 0
            if waited == PATIENCE:
                break
    return predicted
