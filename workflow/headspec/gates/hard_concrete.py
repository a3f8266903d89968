"""Hard Concrete gates (Louizos et al. 2018), with which Voita et al. (2019) prune heads.

A gate is a random number in [0, 1] that is exactly 0 or 1 with positive probability, and differentiable
in its score, log alpha: uniform noise in (0, 1) goes through a sigmoid that is stretched beyond
0 and 1 and clipped there.
"""

import math

import torch

#: temperature, and the ends to which the sigmoid is stretched
BETA, GAMMA, ZETA = 0.33, -0.1, 1.1
#: initial score of an open gate: without noise the gate is 1, and P(open) is .98
OPEN = 3.0
#: a head is closed if its gate without noise is at most this (He and Choi 2021)
CLOSED = 1e-3


def stretched(sigmoid: torch.Tensor) -> torch.Tensor:
    """Stretch values from (0, 1) to (`GAMMA`, `ZETA`) and clip them at 0 and 1."""
    return (sigmoid * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def noisy(score: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return gates in training, for scores log alpha and noise `uniform` in (0, 1) of the same shape."""
    return stretched(torch.sigmoid((torch.logit(uniform) + score) / BETA))


def settled(score: torch.Tensor) -> torch.Tensor:
    """Return gates without noise, for evaluation."""
    return stretched(torch.sigmoid(score))


def open_probability(score: torch.Tensor) -> torch.Tensor:
    """Return P(gate > 0), whose sum over heads is the L0 penalty."""
    return torch.sigmoid(score - BETA * math.log(-GAMMA / ZETA))
