"""Context vectors of the tokens of other examples, in place of those of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from headspec.attention import CROSS, DECODER
from headspec.heads.ablations import aligned
from headspec.heads.any_model.batches import LABELS, Inputs
from headspec.heads.any_model.losses import IGNORED
from headspec.models.architectures import caches
from headspec.models.gates import HeadGates

#: row: context vectors (batch, tokens, heads, size)
Contexts = Mapping[int, torch.Tensor]


def attending(gates: HeadGates, batch: Inputs, contexts: Contexts) -> dict[int, torch.Tensor]:
    """Return which tokens are no padding, row: (batch, tokens); all of them where a batch does not say."""
    return {row: _real(batch, gates.kind(row), context) for row, context in contexts.items()}


def _real(batch: Inputs, kind: str, context: torch.Tensor) -> torch.Tensor:
    if kind in (DECODER, CROSS):
        mask, labels = batch.get("decoder_attention_mask"), batch.get(LABELS)
        if mask is None and isinstance(labels, torch.Tensor) and labels.dim() > 1:
            mask = labels != IGNORED
    else:
        mask = batch.get("attention_mask")
    if isinstance(mask, torch.Tensor) and mask.dim() > 1:
        mask = mask.flatten(0, -2)  # choices of an example are texts
        if mask.shape == context.shape[:2]:
            return mask.to(context.device, torch.long)
    return torch.ones(context.shape[:2], dtype=torch.long, device=context.device)


def of_others(
    gates: HeadGates, batch: Inputs, contexts: Contexts, donors: Inputs, given: Contexts, shift: int
) -> Callable[[int], torch.Tensor]:
    """Return, by row, what replaces the context vectors of a batch: (batch, tokens, heads, size).

    Example i gets the `given` vectors of donor i + `shift`, modulo the number of donors. Tokens are counted
    from the end if they see only earlier ones, else from the beginning, without padding, and repeat where
    the donor is shorter (`headspec.heads.ablations.aligned`). Padding keeps its own.
    """
    own, theirs = attending(gates, batch, contexts), attending(gates, donors, given)
    at_end = caches(gates.model.config.to_dict())

    def instead(row: int) -> torch.Tensor:
        mask = own[row]
        donor = (torch.arange(len(mask), device=mask.device) + shift * gates.sequences) % len(theirs[row])
        other = theirs[row][donor]
        other = torch.where(other.any(1, keepdim=True), other, 1)
        by_rank = aligned(mask, other, at_end)
        ranks = (mask.cumsum(1) - 1).clamp(min=0)
        order = other.argsort(dim=1, descending=True, stable=True)  # real tokens first
        places = order.gather(1, by_rank.gather(1, ranks))
        moved = given[row][donor].take_along_dim(places[..., None, None], 1)
        return torch.where(mask.bool()[..., None, None], moved, contexts[row])

    return instead
