"""Attention weights of every layer of an unmodified model, one layer at a time."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from headspec.errors import EncoderError
from headspec.models.attention.sites import Site
from headspec.models.gates import HeadGates, Receiver
from headspec.models.modes import evaluating, unfused


@contextmanager
def attention_maps(gates: HeadGates, receive: Receiver) -> Iterator[None]:
    """Give every layer's attention weights to `receive` during forward passes within the block.

    Weights are those after the softmax: the row of a token sums to 1, and padding has weight 0. Rows of
    padding have no meaning. A module shared by several layers (ALBERT) gives the map of each layer. The
    layers of an encoder-decoder are numbered by kind of attention (`headspec.attention`), and those of its
    decoder come only if that runs.

    Fused attention never has the weights, so the model runs unfused here, without dropout. Types that compute
    attention themselves return weights only with `output_attentions`; hooks take them out of what a module
    returns, so that the model, which would collect those of all layers, holds none. On leaving, the model is
    as before.

    Raises
    ------
    EncoderError
        The model runs without giving its weights (raised within the block, at the forward pass).
    """
    model: Any = gates.model
    first = next(model.parameters()).device  # of several, where the layers of one model have several
    own = [site for site in gates.sites if site.own]

    def take(site: Site, module: Any, args: tuple, output: Any) -> Any:
        place = next((i for i, each in enumerate(output) if _is_map(each, site)), None)
        if place is None:
            raise EncoderError(
                f"the attention of this {model.config.model_type} cannot be captured: no weights"
            )
        receive(site.rows[0], output[place].to(first))
        return type(output)([*output[:place], None, *output[place + 1 :]])

    def asked(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, kwargs | {"output_attentions": True}

    with ExitStack() as stack:
        for site in own:
            # before other hooks: transformers has its own to collect the weights of all layers
            hook = site.attention.register_forward_hook(functools.partial(take, site), prepend=True)
            stack.callback(hook.remove)
        if own:
            stack.callback(model.register_forward_pre_hook(asked, with_kwargs=True).remove)
        stack.enter_context(unfused(model))
        stack.enter_context(evaluating(model))
        gates.watch()
        gates.receive = lambda row, weights: receive(row, weights.to(first))
        try:
            yield
        finally:
            gates.receive = None


def _is_map(output: Any, site: Site) -> bool:
    """Whether an output of attention is (batch, heads, tokens, tokens)."""
    return isinstance(output, torch.Tensor) and output.dim() == 4 and output.shape[1] == site.heads
