"""Hard Concrete gates (Louizos et al. 2018), with which Voita et al. (2019) prune heads.

A gate is a random number in [0, 1] that is 0 and 1 with positive probability, and a differentiable
function of its score, log alpha: noise u, uniform in (0, 1), goes through a sigmoid that is stretched
beyond 0 and 1 and cut off there.
"""

from __future__ import annotations

import math

import torch

#: temperature, and the ends to which the sigmoid is stretched
BETA, GAMMA, ZETA = 0.33, -0.1, 1.1
#: score of a gate that starts open: without noise it is 1, and its P(open) is .98
OPEN = 3.0
#: largest gate, without noise, of a closed head (He and Choi 2021)
CLOSED = 1e-3


def stretched(sigmoid: torch.Tensor) -> torch.Tensor:
    """From (0, 1) to (`GAMMA`, `ZETA`), cut off at 0 and 1."""
    return (sigmoid * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def noisy(score: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Gates in training.

    Parameters
    ----------
    score : log alpha, of any shape
    uniform : of that shape, in (0, 1)
    """
    return stretched(torch.sigmoid((torch.logit(uniform) + score) / BETA))


def settled(score: torch.Tensor) -> torch.Tensor:
    """Gates without noise, as in tests of the model."""
    return stretched(torch.sigmoid(score))


def open_probability(score: torch.Tensor) -> torch.Tensor:
    """P(gate > 0), whose sum over heads is the L0 penalty."""
    return torch.sigmoid(score - BETA * math.log(-GAMMA / ZETA))
