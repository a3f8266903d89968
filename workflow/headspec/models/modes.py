"""Contexts in which a model is in evaluation mode, or has unfused attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluate; afterwards each module trains or evaluates as before."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


@contextmanager
def unfused(model: PreTrainedModel) -> Iterator[None]:
    """Compute attention step by step, so that its weights are available."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
