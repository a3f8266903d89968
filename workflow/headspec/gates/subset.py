"""Subsets of exactly K heads, as a differentiable function of scores (Li, Cotterell and Sachan 2021).

Gumbel noise on the scores makes the K largest a random subset without replacement, and K successive softmaxes
relax it (Xie and Ermon 2019).
"""

import torch


def relaxed(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """Return gates that sum to `k`: at a low temperature `k` of them are near 1, the others near 0.

    Each softmax adds the next element of the subset and lowers its weight in later ones. All gates are 1 if
    `k` is n, where the relaxation would take some elements several times and others hardly at all.
    `scores` are (n,) and include the noise.
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
    """Return gates of 0 and 1, `k` of them 1, with the gradient of `relaxed`."""
    soft = relaxed(scores, k, temperature)
    hard = torch.zeros_like(scores)
    hard[scores.topk(k).indices] = 1
    return hard + soft - soft.detach()


def gumbel(uniform: torch.Tensor) -> torch.Tensor:
    """Turn uniform noise in (0, 1) into Gumbel noise."""
    return -torch.log(-torch.log(uniform))
