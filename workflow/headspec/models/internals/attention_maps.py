"""Attention weights of every layer of an unmodified encoder, one layer at a time."""

from __future__ import annotations

import fnmatch
import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from headspec.attention import SELF
from headspec.errors import EncoderError
from headspec.models import gates
from headspec.models.architectures import attentions
from headspec.models.pretrained import config_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

#: receives the number of a layer and its weights, (batch, heads, attending tokens, tokens that they attend
#: to), as they are computed
Receiver = Callable[[int, torch.Tensor], None]


@contextmanager
def attention_maps(encoder: PreTrainedModel, receive: Receiver) -> Iterator[None]:
    """Give every layer's attention weights to `receive` during forward passes within the block.

    Weights are those after the softmax: the row of a token sums to 1, and padding has weight 0. Rows of
    padding have no meaning. A module shared by several layers (ALBERT) gives the map of each layer. The
    layers of an encoder-decoder are numbered by kind of attention (`headspec.attention`), and those of its
    decoder come only if that runs.

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
    fused, training = config._attn_implementation, encoder.training
    layers = _layers(config)
    before = dict(zip(layers, itertools.accumulate(layers.values(), initial=0), strict=False))
    done = dict.fromkeys(layers, 0)
    first = next(encoder.parameters()).device  # of several, where the layers of one model have several

    def begin(kinds: list[str], module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        done.update(dict.fromkeys(kinds, 0))
        return args, kwargs | {"output_attentions": True}

    def take(kind: str, place: int, module: Any, args: tuple, output: Any) -> Any:
        weights = output[place] if len(output) > place else None
        if weights is None or weights.dim() != 4 or weights.shape[1] != config.num_attention_heads:
            raise EncoderError(f"the attention of this {config.model_type} cannot be captured: no weights")
        receive(before[kind] + done[kind], weights.to(first))
        done[kind] += 1
        return type(output)([*output[:place], None, *output[place + 1 :]])

    def end(kinds: list[str], module: Any, args: tuple, output: Any) -> None:
        for kind in kinds:
            if done[kind] != layers[kind]:
                raise EncoderError(
                    f"the attention of this {config.model_type} cannot be captured: {done[kind]} of "
                    f"{layers[kind]} layers give weights"
                )

    hooks = []
    for kind, entry in attentions(config.model_type).items():
        # the modules that own the projections of queries, keys and values
        pattern = entry.inputs[0].rpartition(".")[0]
        taking = functools.partial(take, kind, entry.weights)
        for name, module in encoder.named_modules():
            if fnmatch.fnmatchcase(name, pattern):
                # before other hooks: transformers has its own to collect the weights of all layers
                hooks.append(module.register_forward_hook(taking, prepend=True))
    for stack, kinds in gates.stacks(encoder).items():
        hooks.append(stack.register_forward_pre_hook(functools.partial(begin, kinds), with_kwargs=True))
        hooks.append(stack.register_forward_hook(functools.partial(end, kinds)))
    encoder.set_attn_implementation("eager")
    encoder.eval()
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        encoder.set_attn_implementation(fused)
        encoder.train(training)


def _layers(config: PreTrainedConfig) -> dict[str, int]:
    """Layers by kind of attention."""
    if grid := config_json.stacks(config.to_dict()):
        return grid[0]
    return {SELF: config.num_hidden_layers * getattr(config, "inner_group_num", 1)}  # ALBERT's groups
