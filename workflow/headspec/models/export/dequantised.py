"""Floating-point copies of quantised models."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.projections import by_columns, is_packed
from headspec.models.export import structure
from headspec.progress import log

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def packed(model: nn.Module) -> dict[str, nn.Module]:
    """Return the outermost linear layers with quantised weights, by name."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if is_packed(module) and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    return found


def floats(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model itself, or a copy with floating-point instead of packed weights.

    Raises ModelError if a layer does not say its sizes or does not take floats.
    """
    layers = packed(model)
    if not layers:
        return model
    with torch.device("meta"):
        described = type(model)(copy.deepcopy(model.config))
    memo: dict[int, Any] = {
        id(layer): _plain(name, layer, described.get_submodule(name), model.dtype)
        for name, layer in layers.items()
    }
    quantizer = getattr(model, "hf_quantizer", None)
    memo |= {id(quantizer): quantizer}
    plain = copy.deepcopy(model, memo)
    log.warning("%d layers are quantised; their weights are copied as %s", len(layers), model.dtype)
    return without_quantizer(plain)


def without_quantizer(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model itself, or one with the same weights that transformers does not take for quantised."""
    quantizer: Any = getattr(model, "hf_quantizer", None)
    if quantizer is None:
        return model
    plain = copy.copy(model)
    plain.config = copy.deepcopy(model.config)
    quantizer.remove_quantization_config(plain)
    return plain


@torch.no_grad()
def _plain(name: str, layer: Any, made: Any, dtype: torch.dtype) -> nn.Module:
    """Return a layer of floats that computes the same: its weights are the answers to unit vectors.

    It is `made`, the layer that the config describes there, such as a Linear or Conv1D, with these weights.
    """
    inputs = getattr(layer, "in_features", None)
    if not isinstance(inputs, int):
        raise ModelError(f"'{name}' is quantised ({type(layer).__name__}) and has no known sizes")
    bias, units = getattr(layer, "bias", None), torch.eye(inputs, dtype=dtype, device=layer.weight.device)
    try:
        answers = layer(units) - layer(torch.zeros_like(units[:1]))
    except RuntimeError as error:
        raise ModelError(
            f"'{name}' is quantised ({layer.weight.dtype}) and does not accept {dtype} ({error}); expected a "
            "floating-point model"
        ) from None
    made.weight = nn.Parameter((answers.T if by_columns(made) else answers).contiguous().to(dtype))
    made.bias = None if bias is None else nn.Parameter(bias.detach().to(answers).clone())
    structure.resize(made)
    plain: nn.Module = made.requires_grad_(False).train(layer.training)
    return plain
