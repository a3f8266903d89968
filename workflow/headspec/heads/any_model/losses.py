"""Losses of single examples, identified by the mean loss that a model returns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from headspec.errors import EncoderError, listing
from headspec.heads.any_model.batches import LABELS, Inputs, count, rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: takes the outputs of a model and its batch, and returns the loss of each example, (batch,)
Loss = Callable[[Any, Inputs], torch.Tensor]
#: relative difference allowed from the model's own loss, in float32 and in other precisions
EXACT, COARSE = 1e-4, 3e-2
#: examples on which losses are compared: in half precision, two losses may agree on one example
COMPARED = 4
#: label of tokens without a score
IGNORED = -100


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the cross-entropy of classes, or its mean over an example's labelled tokens."""
    if labels.is_floating_point() or logits.shape[-1] == 1:
        return None
    if labels.dim() == logits.dim() and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if labels.shape != logits.shape[:-1]:
        return None
    tokens = F.cross_entropy(
        logits.float().flatten(0, -2), labels.long().flatten(), reduction="none", ignore_index=IGNORED
    )
    real = (labels != IGNORED).flatten(1) if labels.dim() > 1 else labels[:, None] != IGNORED
    return tokens.view(real.shape).sum(1) / real.sum(1).clamp(min=1)


def next_tokens(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the cross-entropy of each token, predicted by the logits before it."""
    return cross_entropy(logits[:, :-1], labels[:, 1:]) if labels.dim() == 2 == logits.dim() - 1 else None


def squared_error(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the mean squared error over an example's scores."""
    if labels.numel() != logits.numel():
        return None
    return (logits.float().view(len(labels), -1) - labels.float().view(len(labels), -1)).square().mean(1)


def binary_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the binary cross-entropy of several labels, each 0 or 1."""
    if labels.shape != logits.shape:
        return None
    each = F.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="none")
    return each.flatten(1).mean(1)


LOSSES = cross_entropy, next_tokens, squared_error, binary_cross_entropy


def own_loss(model: PreTrainedModel, batch: Inputs) -> Loss:
    """Return the function of `LOSSES` whose mean over a labelled `batch` is the loss that the model returns.

    Raises EncoderError if the model returns no loss, or none of these.
    """
    name = type(model).__name__
    if not isinstance(batch.get(LABELS), torch.Tensor):
        raise EncoderError(f"loss: missing; a batch has {listing(batch)}, expected labels in it, or `loss`")
    off = dict.fromkeys(LOSSES, 0.0)  # largest difference relative to the model's loss
    within, compared = EXACT, 0
    main = model.main_input_name
    for row in range(count(batch, main)):
        one = rows(batch, slice(row, row + 1), main)
        with torch.no_grad():
            outputs = model(**one)
        own = getattr(outputs, "loss", None)
        if own is None:
            raise EncoderError(f"loss: missing; {name} gives none for labels, expected `loss`")
        if not own.isfinite():
            continue  # for example a text whose tokens are all ignored
        if not own.dtype == outputs.logits.dtype == torch.float32:
            within = COARSE
        for loss in LOSSES:
            found = loss(outputs.logits, one[LABELS].to(outputs.logits.device))
            other = float("inf") if found is None else float((found[0] / own.float() - 1).abs())
            off[loss] = max(off[loss], other)
        compared += 1
        if compared == COMPARED:
            break
    best = min(LOSSES, key=off.__getitem__)
    if compared and off[best] <= within:
        return functools.partial(_from_outputs, best)
    raise EncoderError(
        f"loss: missing; the loss of {name} is no cross-entropy or squared error of its logits, "
        "expected `loss`"
    )


def _from_outputs(
    loss: Callable[[torch.Tensor, torch.Tensor], Any], outputs: Any, batch: Inputs
) -> torch.Tensor:
    return loss(outputs.logits, batch[LABELS].to(outputs.logits.device))
