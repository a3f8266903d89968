"""Contexts in which a model is in evaluation mode, or has unfused attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
    """Compute attention step by step, so that its weights are available; afterwards as before."""
    before = [(config, dict(vars(config))) for config in _configs(model)]
    try:
        model.set_attn_implementation("eager")
        yield
    finally:
        for config, attributes in before:  # parts of a model may attend in different ways
            vars(config).clear()
            vars(config).update(attributes)


def _configs(model: PreTrainedModel) -> list[Any]:
    """Return the configs of a model and of its parts."""
    found: dict[int, Any] = {}
    waiting = [vars(module).get("config") for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if hasattr(config, "sub_configs") and id(config) not in found:
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return [*found.values()]
