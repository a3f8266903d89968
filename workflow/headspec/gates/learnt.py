"""Gates that learn which heads to keep: a score for each head, and gates drawn from it."""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from headspec.attention import spread
from headspec.gates import hard_concrete, subset
from headspec.heads.ranking import top_heads
from headspec.registry import require

#: fraction of learning during which the number of heads falls to its target
FALLING = 0.5
#: temperatures of subsets at the beginning, where gates are alike (as in Li et al. 2021), and at the end,
#: where all but a few are open or closed
WARM, COLD = 1000.0, 0.01
#: rho of `L0Target`, and the fraction of rho g by which the multiplier climbs
RHO, CLIMB = 0.3, 0.03


class Settled(NamedTuple):
    """Gates without noise.

    Attributes
    ----------
    kept : bool (layers, heads), False where there is no head
    gate : (layers, heads), from 0 to 1
    probability : P(gate > 0), (layers, heads); None for gates that have none
    scores : (layers, heads), heads with the largest are kept first; None for gates that learn none
    """

    kept: np.ndarray
    gate: np.ndarray
    probability: np.ndarray | None
    scores: np.ndarray | None = None


class LearntGates(Protocol):
    """One gate for each head.

    Heads with the largest `scores`, (layers, heads), are kept; `target` is the number of open heads that the
    cost drives the gates to, if any.
    """

    scores: nn.Parameter
    target: int | None

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        """Return the gates of one step, (layers, heads).

        `progress` is the fraction of learning that is done, `uniform` noise in (0, 1) of the same shape.
        """

    def cost(self, progress: float) -> torch.Tensor:
        """Return the scalar added to the loss of a batch."""

    def settled(self, scores: np.ndarray, count: int | None) -> Settled:
        """Return the gates without noise for `scores`; with `count` None, open gates are kept."""

    def state_dict(self) -> dict: ...

    def load_state_dict(self, state: dict) -> object: ...


class L0(nn.Module):
    """Hard Concrete gates with a penalty on the expected number of open heads (Voita et al. 2019).

    `penalty` is the coefficient per head. He and Choi (2021) penalise the mean over heads: their coefficient
    is this one times the number of heads.
    """

    def __init__(self, shape: tuple[int, ...], penalty: float) -> None:
        super().__init__()
        self.target: int | None = None
        self.scores, self.penalty = nn.Parameter(torch.full(shape, hard_concrete.OPEN)), penalty

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        return hard_concrete.noisy(self.scores, uniform)

    def cost(self, progress: float) -> torch.Tensor:
        return self.penalty * hard_concrete.open_probability(self.scores).sum()

    def settled(self, scores: np.ndarray, count: int | None) -> Settled:
        gate = hard_concrete.settled(torch.from_numpy(scores)).numpy()
        probability = hard_concrete.open_probability(torch.from_numpy(scores)).numpy()
        kept = gate > hard_concrete.CLOSED if count is None else top_heads(scores, count)
        return Settled(kept, gate, probability, scores)


class L0Target(L0):
    """Hard Concrete gates whose expected number is driven to `count` by an augmented Lagrangian.

    With g the expected number of open heads above the target, which falls linearly from all heads over the
    first half of learning, the cost is lambda g + rho g^2 / 2. The multiplier lambda climbs by a fraction of
    rho g in every step of the second half. In Wang et al. (2020) and Xia et al. (2022) both multipliers
    climb all the time, which in a few hundred steps drives the gates far past the target.
    """

    multiplier: torch.Tensor

    def __init__(self, shape: tuple[int, ...], count: int) -> None:
        super().__init__(shape, 0.0)
        self.target = count
        self.register_buffer("multiplier", torch.zeros(()))

    def cost(self, progress: float) -> torch.Tensor:
        assert self.target is not None
        closed = (self.scores.numel() - self.target) * min(progress / FALLING, 1.0)
        above = hard_concrete.open_probability(self.scores).sum() - (self.scores.numel() - closed)
        if progress >= FALLING:
            self.multiplier += CLIMB * RHO * above.detach()
        return self.multiplier.clone() * above + RHO / 2 * above.square()


class Subset(nn.Module):
    """Subsets of exactly `count` heads (Li, Cotterell and Sachan 2021).

    The number falls linearly from all heads over the first half of learning, the temperature geometrically
    over all of it, so that gates stay alike while their number falls and become `count` open ones in the
    second half. With `hard`, gates are 0 and 1 in training too, with the straight-through gradient.
    """

    def __init__(self, shape: tuple[int, ...], count: int, hard: bool = False) -> None:
        super().__init__()
        self.target: int | None = None
        self.scores, self.count = nn.Parameter(torch.zeros(shape)), count
        self.gates = subset.straight_through if hard else subset.relaxed

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        closed = round((uniform.numel() - self.count) * min(progress / FALLING, 1.0))
        noisy = (self.scores + subset.gumbel(uniform)).flatten()
        temperature = WARM * (COLD / WARM) ** progress
        return self.gates(noisy, uniform.numel() - closed, temperature).view_as(uniform)

    def cost(self, progress: float) -> torch.Tensor:
        return torch.zeros(())

    def settled(self, scores: np.ndarray, count: int | None) -> Settled:
        kept = top_heads(scores, self.count)
        return Settled(kept, kept.astype(float), None, scores)


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


def learnt_gates(kind: str, shape: tuple[int, ...], count: int | None, penalty: float) -> LearntGates:
    """Return gates of a kind, all open.

    `kind` is "l0", "l0-target", "subset" or "subset-hard"; `shape` layers and heads, or a number of heads;
    `count` the heads to keep (not used by `l0`). Only `l0` uses `penalty`.
    """
    require("kind of gates", kind, ("l0", "l0-target", "subset", "subset-hard"))
    if kind == "l0":
        return L0(shape, penalty)
    assert count is not None
    if kind == "l0-target":
        return L0Target(shape, count)
    return Subset(shape, count, hard=kind == "subset-hard")
