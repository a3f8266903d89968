"""Where a model computes, and which of its layers compute again in backward passes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's inputs.

    Where accelerate has placed the model, its first hook names the device; otherwise it is that of the first
    weight that is loaded, or the CPU.
    """
    for module in model.modules():
        device = getattr(vars(module).get("_hf_hook"), "execution_device", None)
        if device is not None:
            return torch.device(device)
    return next((p.device for p in model.parameters() if not p.is_meta), torch.device("cpu"))


def keep_places(model: PreTrainedModel) -> None:
    """Keep the modules of a model where accelerate has placed them, if on several devices or offloaded.

    The encoder returns its states to the device of its inputs; ``model.to(device)`` moves no weights.
    """
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module

    if not (hooks := [vars(module)["_hf_hook"] for module in model.modules() if "_hf_hook" in vars(module)]):
        return
    for hook in hooks:
        for each in getattr(hook, "hooks", [hook]):
            # they know shared weights by addresses, at which there are others once weights are converted
            each.tied_params_map, each.tied_params_names = None, set()
    encoder: Any = model.base_model
    if encoder is not model:
        add_hook_to_module(encoder, AlignDevicesHook(device_of(model), io_same_device=True), append=True)
    for part in {model, encoder}:
        vars(part)["_apply"] = functools.partial(_stay, part)


def _stay(part: nn.Module, *_: Any, **__: Any) -> nn.Module:
    return part


@contextmanager
def checkpointing(model: nn.Module) -> Iterator[None]:
    """Checkpoint the activations of an evaluated model's layers as its settings say, as if it were trained.

    Layers with `gradient_checkpointing` compute again in backward passes, without dropout.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer  # slow to import

    layers: list[Any] = [
        layer
        for layer in model.modules()
        if isinstance(layer, GradientCheckpointingLayer)
        and layer.gradient_checkpointing
        and not layer.training
    ]
    usual = {layer: vars(layer).get("_gradient_checkpointing_func") for layer in layers}
    try:
        for layer in layers:
            layer._gradient_checkpointing_func, layer.training = _evaluated(layer), True
        yield
    finally:
        for layer, function in usual.items():
            layer._gradient_checkpointing_func, layer.training = function, False


def _evaluated(layer: nn.Module) -> Callable[..., Any]:
    """Return a function that runs a layer as a checkpoint, evaluated inside."""

    def run(forward: Callable[..., Any], *args: Any) -> Any:
        def inside(*args: Any) -> Any:
            before, layer.training = layer.training, False
            try:
                return forward(*args)
            finally:
                layer.training = before

        return checkpoint(inside, *args, use_reentrant=False)

    return run
