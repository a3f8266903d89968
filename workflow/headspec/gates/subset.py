"""Subsets of exactly K heads, as a differentiable function of scores (Li, Cotterell and Sachan 2021).

Gumbel noise on the scores makes the K largest a random subset without replacement. The paper relaxes it by K
successive softmaxes (Xie and Ermon 2019), which take a group of heads several times if it lies far above the
others: gates reach several times 1. A projection, which replaces them here, keeps gates from 0 to 1.
"""

import torch
from scipy.optimize import brentq
from scipy.special import expit, logit
from torch.nn.functional import logsigmoid


def relaxed(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Return gates from 0 to 1 that sum to `k`: alike at a high temperature, `k` of them near 1 at a low one.

    They are the projection, by entropy, of scores / temperature onto the capped simplex: sigmoids with a
    common threshold. `scores` are (n,) and include the noise.
    """
    if k in (0, len(scores)):
        return torch.full_like(scores, k / len(scores)) + 0 * scores
    scaled = scores / temperature
    values = scaled.detach().double().cpu().numpy()
    gap = logit(k / len(scores))  # of equal scores above their threshold
    threshold = brentq(
        lambda x: expit(values - x).sum() - k, values.min() - gap - 1, values.max() - gap + 1, xtol=1e-12
    )
    above = (scaled.detach().double() - threshold).to(scores.dtype)
    # derivative of the threshold, by the implicit function theorem: shares of the sum of g (1 - g)
    weights = torch.softmax(logsigmoid(above) + logsigmoid(-above), dim=0)
    moved = scaled - scaled.detach()
    return torch.sigmoid(above + moved - (weights * moved).sum())


def straight_through(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Return gates of 0 and 1, `k` of them 1, with the gradient of `relaxed`."""
    soft = relaxed(scores, k, temperature)
    hard = torch.zeros_like(scores)
    hard[scores.topk(k).indices] = 1
    return hard + soft - soft.detach()


def gumbel(uniform: torch.Tensor) -> torch.Tensor:
    """Turn uniform noise in (0, 1) into Gumbel noise."""
    return -torch.log(-torch.log(uniform))
