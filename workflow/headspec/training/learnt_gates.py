"""Gates that learn which heads to keep: a score for each head, and gates drawn from it.

Hard Concrete gates (Louizos et al. 2018), with which Voita et al. (2019) prune heads, are random numbers in
[0, 1] that are exactly 0 or 1 with positive probability, and differentiable in their score, log alpha:
uniform noise in (0, 1) goes through a sigmoid that is stretched beyond 0 and 1 and clipped there.

Subsets of exactly K heads are a differentiable function of scores (Li, Cotterell and Sachan 2021). Gumbel
noise on the scores makes the K largest a random subset without replacement. The paper relaxes it by K
successive softmaxes (Xie and Ermon 2019), which may select heads far above the others several times, with
gates of several times 1. The projection used here instead keeps gates between 0 and 1.

Soft gates of causal head gating (Nam et al. 2025) are sigmoids of scores without noise. A small constant
force pulls them towards closed, or towards open: a head that it does not move is held there by the loss.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import expit, logit
from torch import nn
from torch.nn.functional import logsigmoid

from headspec.head_arrays import spread
from headspec.heads.ranking import top_heads
from headspec.registry import require

#: temperature, and the limits to which the sigmoid is stretched
BETA, GAMMA, ZETA = 0.33, -0.1, 1.1
#: initial score of an open gate: without noise the gate is 1, and P(open) is .98
OPEN = 3.0
#: largest score of soft gates, which gives a gate of .982; the smallest is its negative
CLIPPED = 4.0
#: a head is closed if its gate without noise is at most this (He and Choi 2021)
CLOSED = 1e-3


def stretched(sigmoid: torch.Tensor) -> torch.Tensor:
    """Stretch values from (0, 1) to (`GAMMA`, `ZETA`) and clip them at 0 and 1; any shape."""
    return (sigmoid * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def hard_concrete(score: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return gates in training, for scores log alpha and noise `uniform` in (0, 1) of the same shape."""
    return stretched(torch.sigmoid((torch.logit(uniform) + score) / BETA))


def deterministic_gates(score: torch.Tensor) -> torch.Tensor:
    """Return gates without noise, for evaluation, of the shape of `score`."""
    return stretched(torch.sigmoid(score))


def open_probability(score: torch.Tensor) -> torch.Tensor:
    """Return P(gate > 0), of the shape of `score`; its sum over heads is the L0 penalty."""
    return torch.sigmoid(score - BETA * math.log(-GAMMA / ZETA))


def relaxed_subset(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Return gates in [0, 1] that sum to `k`: equal at a high temperature, `k` of them near 1 at a low one.

    They are the entropic projection of scores / temperature onto the capped simplex: sigmoids with a common
    threshold. `scores` are (n,) and include the noise.
    """
    if k in (0, len(scores)):
        return torch.full_like(scores, k / len(scores)) + 0 * scores
    scaled = scores / temperature
    values = scaled.detach().double().cpu().numpy()
    gap = logit(k / len(scores))  # height of equal scores above their threshold
    threshold = brentq(
        lambda x: expit(values - x).sum() - k, values.min() - gap - 1, values.max() - gap + 1, xtol=1e-12
    )
    above = (scaled.detach().double() - threshold).to(scores.dtype)
    # derivative of the threshold, by the implicit function theorem: shares of the sum of g (1 - g)
    weights = torch.softmax(logsigmoid(above) + logsigmoid(-above), dim=0)
    moved = scaled - scaled.detach()
    return torch.sigmoid(above + moved - (weights * moved).sum())


def straight_through_subset(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Return gates (n,) of 0 and 1, `k` of them 1, with the gradient of `relaxed_subset`."""
    soft = relaxed_subset(scores, k, temperature)
    hard = torch.zeros_like(scores)
    hard[scores.topk(k).indices] = 1
    return hard + soft - soft.detach()


def gumbel(uniform: torch.Tensor) -> torch.Tensor:
    """Turn uniform noise in (0, 1) into Gumbel noise."""
    return -torch.log(-torch.log(uniform))


#: fraction of learning during which the number of heads decreases to its target
FALLING = 0.5
#: temperatures of subsets at the start, where gates are nearly equal (as in Li et al. 2021), and at the end,
#: where almost all are open or closed
WARM, COLD = 1000.0, 0.01
#: rho of `L0Target`, and the fraction of rho g by which the multiplier increases
RHO, CLIMB = 0.3, 0.03


class FinalGates(NamedTuple):
    """Gates without noise.

    Attributes
    ----------
    kept : bool (layers, heads), False where there is no head
    gate : (layers, heads), from 0 to 1
    probability : P(gate > 0), (layers, heads); None for gates without probabilities
    scores : (layers, heads), the largest are kept first; nan for fixed heads; None if no gates learn
    """

    kept: np.ndarray
    gate: np.ndarray
    probability: np.ndarray | None
    scores: np.ndarray | None = None


class LearntGates(nn.Module):
    """One gate for each head.

    Heads with the largest `scores`, (layers, heads), are kept; `target` is the number of open heads, if any,
    that the cost steers towards.
    """

    target: int | None = None

    def __init__(self, scores: nn.Parameter) -> None:
        super().__init__()
        self.scores = scores

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        """Return the gates of one step, (layers, heads).

        `progress` is the completed fraction of learning, `uniform` noise in (0, 1) of the same shape.
        """
        raise NotImplementedError

    def cost(self, progress: float) -> torch.Tensor:
        """Return the scalar added to the loss of a batch."""
        return torch.zeros(())

    def final(self, scores: np.ndarray, count: int | None) -> FinalGates:
        """Return gates without noise for `scores`, (layers, heads); without `count`, keep open heads."""
        raise NotImplementedError


class L0(LearntGates):
    """Hard Concrete gates with a penalty on the expected number of open heads (Voita et al. 2019).

    `penalty` is the coefficient per head. He and Choi (2021) penalise the mean over heads: their coefficient
    is `penalty` times the number of heads.
    """

    def __init__(self, shape: tuple[int, ...], penalty: float) -> None:
        super().__init__(nn.Parameter(torch.full(shape, OPEN)))
        self.penalty = penalty

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        return hard_concrete(self.scores, uniform)

    def cost(self, progress: float) -> torch.Tensor:
        return self.penalty * open_probability(self.scores).sum()

    def final(self, scores: np.ndarray, count: int | None) -> FinalGates:
        gate = deterministic_gates(torch.from_numpy(scores)).numpy()
        probability = open_probability(torch.from_numpy(scores)).numpy()
        kept = gate > CLOSED if count is None else top_heads(scores, count)
        return FinalGates(kept, gate, probability, scores)


class L0Target(L0):
    """Hard Concrete gates whose expected number is driven to `count` by an augmented Lagrangian.

    With g the excess of the expected number of open heads over the target, which decreases linearly from all
    heads over the first half of learning, the cost is lambda g + rho g^2 / 2. The multiplier lambda increases
    by a fraction of rho g in every step of the second half. In Wang et al. (2020) and Xia et al. (2022) both
    multipliers increase throughout, which overshoots the target by far within a few hundred steps.
    """

    multiplier: torch.Tensor

    def __init__(self, shape: tuple[int, ...], count: int) -> None:
        super().__init__(shape, 0.0)
        self.target = count
        self.register_buffer("multiplier", torch.zeros(()))

    def cost(self, progress: float) -> torch.Tensor:
        assert self.target is not None
        closed = (self.scores.numel() - self.target) * min(progress / FALLING, 1.0)
        above = open_probability(self.scores).sum() - (self.scores.numel() - closed)
        if progress >= FALLING:
            self.multiplier += CLIMB * RHO * above.detach()
        return self.multiplier.clone() * above + RHO / 2 * above.square()


class Subset(LearntGates):
    """Subsets of exactly `count` heads (Li, Cotterell and Sachan 2021).

    The number decreases linearly from all heads over the first half of learning, the temperature
    geometrically over all of it, so that gates stay nearly equal in the first half, and `count` of them open
    in the second. With `hard`, gates are 0 or 1 in training too, with the straight-through gradient.
    """

    def __init__(self, shape: tuple[int, ...], count: int, hard: bool = False) -> None:
        super().__init__(nn.Parameter(torch.zeros(shape)))
        self.count = count
        self.gates = straight_through_subset if hard else relaxed_subset

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        closed = round((uniform.numel() - self.count) * min(progress / FALLING, 1.0))
        noisy = (self.scores + gumbel(uniform)).flatten()  # (layers * heads,)
        temperature = WARM * (COLD / WARM) ** progress
        return self.gates(noisy, uniform.numel() - closed, temperature).view_as(uniform)

    def final(self, scores: np.ndarray, count: int | None) -> FinalGates:
        kept = top_heads(scores, self.count)
        return FinalGates(kept, kept.astype(float), None, scores)


class Soft(LearntGates):
    """Soft gates that `penalty` pulls towards closed or, if negative, towards open (Nam et al. 2025).

    In the first half they learn without the pull. Then the cost is `penalty` times the sum of scores, which
    stay within `CLIPPED`: pulled towards closed, a head stays open only if the loss falls by more than four
    times the penalty per unit of its gate.
    """

    def __init__(self, shape: tuple[int, ...], penalty: float) -> None:
        super().__init__(nn.Parameter(torch.full(shape, OPEN)))
        self.penalty = penalty

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.scores.clamp_(-CLIPPED, CLIPPED)
        return torch.sigmoid(self.scores)

    def cost(self, progress: float) -> torch.Tensor:
        return (self.penalty if progress >= FALLING else 0.0) * self.scores.sum()

    def final(self, scores: np.ndarray, count: int | None) -> FinalGates:
        gate = expit(scores.clip(-CLIPPED, CLIPPED))
        kept = gate > 0.5 if count is None else top_heads(scores, count)
        return FinalGates(kept, gate, None, scores)


class Partial(LearntGates):
    """Gates of all heads, learnt for the `free` heads and open for the `fixed` heads.

    `gates` are of the free heads, (free,); both masks are bool (layers, heads), and no other heads exist.
    """

    def __init__(self, gates: LearntGates, free: np.ndarray, fixed: np.ndarray) -> None:
        super().__init__(gates.scores)
        self.gates, self.free, self.fixed = gates, free, fixed
        self.open = int(fixed.sum())
        self.target = None if gates.target is None else gates.target + self.open

    def draw(self, progress: float, uniform: torch.Tensor) -> torch.Tensor:
        every = torch.from_numpy(self.fixed).to(uniform.dtype)  # (layers, heads)
        every[torch.from_numpy(self.free)] = self.gates.draw(progress, uniform)
        return every

    def cost(self, progress: float) -> torch.Tensor:
        return self.gates.cost(progress)

    def final(self, scores: np.ndarray, count: int | None) -> FinalGates:
        """Keep the fixed heads too, without a score; they count towards `count`."""
        learnt = self.gates.final(scores, None if count is None else count - self.open)

        def whole(values: np.ndarray) -> np.ndarray:
            return np.where(self.fixed, 1.0, spread(values.astype(float), self.free))

        scored = learnt.scores if learnt.scores is None else spread(learnt.scores, self.free)
        probability = None if learnt.probability is None else whole(learnt.probability)
        return FinalGates(whole(learnt.kept) == 1, whole(learnt.gate), probability, scored)


def learnt_gates(gates: str, shape: tuple[int, ...], count: int | None, penalty: float) -> LearntGates:
    """Return gates that can learn, all open at first.

    `gates` is "l0", "l0-target", "soft", "subset" or "subset-hard"; `shape` is layers and heads, or a number
    of heads; `count` is the number of heads to keep. Only `l0` and `soft` use `penalty`, and they need no
    `count`. Raises ConfigError if there are no such `gates`.
    """
    require("kind of gates", gates, ("l0", "l0-target", "soft", "subset", "subset-hard"))
    if gates in ("l0", "soft"):
        return L0(shape, penalty) if gates == "l0" else Soft(shape, penalty)
    assert count is not None
    if gates == "l0-target":
        return L0Target(shape, count)
    return Subset(shape, count, hard=gates == "subset-hard")
