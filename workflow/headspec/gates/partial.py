"""Gates that learn for some heads and stay open for the others."""

from __future__ import annotations

import numpy as np
import torch

from headspec.attention import spread
from headspec.gates.learnt import LearntGates, Settled


class Partial:
    """Gates of all heads, which learn for the `free` heads and stay open for the `fixed` ones.

    `gates` are of the free heads; both masks are bool (layers, heads), and no other heads exist.
    """

    def __init__(self, gates: LearntGates, free: np.ndarray, fixed: np.ndarray) -> None:
        self.gates, self.free, self.fixed = gates, free, fixed
        self.open = int(fixed.sum())
        self.scores = gates.scores
        self.target = None if gates.target is None else gates.target + self.open

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        every = torch.from_numpy(self.fixed).to(uniform.dtype)
        every[torch.from_numpy(self.free)] = self.gates.draw(progress, uniform)
        return every

    def cost(self, progress: float) -> torch.Tensor:
        return self.gates.cost(progress)

    def settled(self, scores: np.ndarray, count: int | None) -> Settled:
        """Keep the fixed heads too, without a score; they count towards `count`."""
        learnt = self.gates.settled(scores, None if count is None else count - self.open)

        def whole(values: np.ndarray) -> np.ndarray:
            return np.where(self.fixed, 1.0, spread(values.astype(float), self.free))

        scored = learnt.scores if learnt.scores is None else spread(learnt.scores, self.free)
        probability = None if learnt.probability is None else whole(learnt.probability)
        return Settled(whole(learnt.kept) == 1, whole(learnt.gate), probability, scored)

    def state_dict(self) -> dict:
        return self.gates.state_dict()

    def load_state_dict(self, state: dict) -> object:
        return self.gates.load_state_dict(state)
