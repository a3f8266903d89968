"""Gates of which only those of some layers learn; the others stay open."""

from __future__ import annotations

import numpy as np
import torch

from headspec.gates.learnt import LearntGates, Settled


class Partial:
    """The gates of all heads, of which those in `layers` are `gates`; with their interface.

    Parameters
    ----------
    gates : of a map (number of `layers`, heads)
    layers : bool (all layers,)

    Attributes
    ----------
    open : number of heads that stay open
    """

    def __init__(self, gates: LearntGates, layers: np.ndarray) -> None:
        self.gates, self.layers = gates, layers
        self.open = int((~layers).sum()) * gates.scores.shape[1]
        self.scores = gates.scores
        self.target = None if gates.target is None else gates.target + self.open

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        drawn = self.gates.draw(progress, uniform)
        every = torch.ones(len(self.layers), drawn.shape[1])
        every[torch.from_numpy(self.layers)] = drawn
        return every

    def cost(self, progress: float) -> torch.Tensor:
        return self.gates.cost(progress)

    def settled(self, scores: np.ndarray, count: int | None) -> Settled:
        """Those that stay open are kept, without a score; `count` has them."""
        learnt = self.gates.settled(scores, None if count is None else count - self.open)

        def whole(values: np.ndarray | None, others: float) -> np.ndarray | None:
            if values is None:
                return None
            every = np.full((len(self.layers), values.shape[1]), others, dtype=values.dtype)
            every[self.layers] = values
            return every

        kept, gate = whole(learnt.kept, True), whole(learnt.gate, 1.0)
        assert kept is not None and gate is not None
        return Settled(kept, gate, whole(learnt.probability, 1.0), whole(learnt.scores, np.nan))

    def state_dict(self) -> dict:
        return self.gates.state_dict()

    def load_state_dict(self, state: dict) -> object:
        return self.gates.load_state_dict(state)
