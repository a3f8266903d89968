"""Subsets of exactly K heads, as a differentiable function of scores (Li, Cotterell and Sachan 2021).

Gumbel noise on the scores makes the K largest a random subset without replacement; K successive softmaxes
relax it (Xie and Ermon 2019).
"""

from __future__ import annotations

import torch


def relaxed(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Gates whose sum is `k`: at a low temperature `k` are near 1, the others near 0; all are 1 if `k` is n.

    Each softmax adds the next element of the subset; what has been taken has less weight in those after it.
    The relaxation of the subset of all n would take some elements several times and others hardly at all.

    Parameters
    ----------
    scores : (n,), with the noise
    """
    if k == len(scores):
        return torch.ones_like(scores) + 0 * scores
    tiny = torch.finfo(scores.dtype).tiny
    logits, gates = scores / temperature, torch.zeros_like(scores)
    for _ in range(k):
        taken = torch.softmax(logits, dim=0)
        gates = gates + taken
        logits = logits + torch.log((1 - taken).clamp_min(tiny)) / temperature
    return gates


def straight_through(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Gates of 0 and 1 with `k` ones, that have the gradient of `relaxed`."""
    soft = relaxed(scores, k, temperature)
    hard = torch.zeros_like(scores)
    hard[scores.topk(k).indices] = 1
    return hard + soft - soft.detach()


def gumbel(uniform: torch.Tensor) -> torch.Tensor:
    """Gumbel noise from uniform noise in (0, 1)."""
    return -torch.log(-torch.log(uniform))
