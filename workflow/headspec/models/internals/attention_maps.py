"""Attention weights of every layer of an unmodified encoder, one layer at a time."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from headspec.errors import EncoderError
from headspec.models.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: receives the number of a layer and its weights, (batch, heads, tokens, tokens), as they are computed
Receiver = Callable[[int, torch.Tensor], None]


@contextmanager
def attention_maps(encoder: PreTrainedModel, receive: Receiver) -> Iterator[None]:
    """Give every layer's attention weights to `receive` during forward passes within the block.

    Weights are those after the softmax: the row of a token sums to 1, and padding has weight 0. Rows of
    padding have no meaning. A module shared by several layers (ALBERT) gives the map of each layer.

    Fused attention never has the weights, so the encoder runs unfused here, without dropout. In this mode
    the attention module of every architecture returns its weights, those outside of transformers' attention
    interface (DeBERTa, MPNet, GPT) only with `output_attentions`. Hooks take the weights out of what the
    module returns, so that the encoder, which would collect those of all layers, holds none. On leaving,
    the encoder is as before.

    Raises
    ------
    EncoderError
        The encoder runs without giving its weights (raised within the block, at the forward pass).
    """
    config = encoder.config
    modules = _attentions(encoder)
    fused, training = config._attn_implementation, encoder.training
    layers = config.num_hidden_layers * getattr(config, "inner_group_num", 1)  # ALBERT's groups of layers
    layer = 0

    def begin(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        nonlocal layer
        layer = 0
        return args, kwargs | {"output_attentions": True}

    def take(module: Any, args: tuple, output: Any) -> Any:
        nonlocal layer
        weights = output[1] if len(output) > 1 else None
        if weights is None or weights.dim() != 4 or weights.shape[1] != config.num_attention_heads:
            raise EncoderError(f"the attention of this {config.model_type} cannot be captured: no weights")
        receive(layer, weights)
        layer += 1
        return type(output)([output[0], None, *output[2:]])

    def end(module: Any, args: tuple, output: Any) -> None:
        if layer != layers:
            raise EncoderError(
                f"the attention of this {config.model_type} cannot be captured: {layer} of "
                f"{layers} layers give weights"
            )

    # before other hooks: transformers has its own to collect the weights of all layers
    hooks = [module.register_forward_hook(take, prepend=True) for module in modules]
    hooks.append(encoder.register_forward_pre_hook(begin, with_kwargs=True))
    hooks.append(encoder.register_forward_hook(end))
    encoder.set_attn_implementation("eager")
    encoder.eval()
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        encoder.set_attn_implementation(fused)
        encoder.train(training)


def _attentions(encoder: PreTrainedModel) -> list[Any]:
    """The modules that compute attention: those that own the projections of queries, keys and values."""
    pattern = ARCHITECTURES[encoder.config.model_type].inputs[0].rpartition(".")[0]
    return [module for name, module in encoder.named_modules() if fnmatch.fnmatchcase(name, pattern)]
