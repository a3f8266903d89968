"""Log-probabilities of tokens in a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from headspec.models.language.head import LanguageHead

#: most logits at once, so that memory does not grow with the vocabulary
LOGITS = 2**26


def log_probabilities(head: LanguageHead, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of the token after each state, (n,) float32.

    Parameters
    ----------
    states : (n, hidden)
    tokens : (n,)
    """

    def part(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return -F.cross_entropy(head(states), tokens, reduction="none")

    at_once = max(1, LOGITS // head.tokens.out_features)
    if len(states) <= at_once:
        return part(states, tokens)
    parts = zip(states.split(at_once), tokens.split(at_once), strict=True)
    return torch.cat([checkpoint(part, *given, use_reentrant=False) for given in parts])
