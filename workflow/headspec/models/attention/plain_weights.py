"""Checks that the weights of a model are plain: finite floats, and parameters of their modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize
from transformers.pytorch_utils import Conv1D

from headspec.errors import ModelError, listing
from headspec.models.attention.projections import Zeros, is_plain

NAMES = ("weight", "bias")


def check_plain(model: nn.Module) -> None:
    """Raise ModelError if weights are quantised, offloaded, computed from others in each pass, or not finite.

    Modules that are not linear may be parametrised, like the convolutions of wav2vec2: they contain no heads.
    """
    registered = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for name, value, module in _weights(model):
        sources = [own for own, _ in module.named_parameters() if own not in NAMES]
        unregistered = isinstance(value, torch.Tensor) and id(value) not in registered
        linear = isinstance(module, (nn.Linear, Conv1D))
        if sources and (linear if parametrize.is_parametrized(module) else unregistered):
            raise ModelError(
                f"'{name}' is computed from {listing(sources)} in each pass, as pruning and parametrisations "
                "of torch do; make it a parameter again, such as by torch.nn.utils.prune.remove or "
                "torch.nn.utils.parametrize.remove_parametrizations"
            )
        if isinstance(value, torch.Tensor) and value.is_meta:
            raise ModelError(f"'{name}' is offloaded; expected a model in memory")
        if not is_plain(value):
            kind = value.dtype if isinstance(value, torch.Tensor) else type(module).__module__
            raise ModelError(f"'{name}' is quantised ({kind}); expected a floating-point model")
    if problem := not_finite(model):
        raise ModelError(problem)


def _weights(model: nn.Module) -> Iterator[tuple[str, Any, nn.Module]]:
    """Yield names and values of the weights and biases of modules, and their modules.

    A value is a tensor or, in quantised modules of torch, a function.
    """
    for path, module in model.named_modules():
        for name in NAMES:
            value = getattr(module, name, None)
            is_tensor = isinstance(value, torch.Tensor) and value.dtype != torch.bool
            is_weight = is_tensor or callable(value)
            if is_weight and not isinstance(value, nn.Module) and not isinstance(module, Zeros):
                yield f"{path}.{name}", value, module


def not_finite(model: nn.Module) -> str:
    """Return how many parameters are nan or infinite, and one name, as a clause; empty if none are."""
    bad = [name for name, value in model.named_parameters() if is_plain(value) and not value.isfinite().all()]
    return f"{len(bad)} of its weights are nan or infinite, such as '{bad[0]}'" if bad else ""
