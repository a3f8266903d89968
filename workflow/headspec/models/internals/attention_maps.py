"""Attention weights of an unmodified model, one layer at a time."""

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
    """Give every row's attention weights to `receive` during forward passes within the block.

    Weights are taken after the softmax: a token's weights sum to 1, and padding has weight 0; the weights of
    padding itself mean nothing. The model runs unfused, because fused attention has no weights, and without
    dropout. Types that compute attention themselves return weights only with `output_attentions`; hooks take
    them out of the outputs of modules, so that the model does not collect all layers. EncoderError, at the
    forward pass, if the model does not give its weights.
    """
    model: Any = gates.model
    first = next(model.parameters()).device  # layers may be on several
    own = [site for site in gates.sites if site.own]

    def take(site: Site, module: Any, args: tuple, output: Any) -> Any:
        index = next((i for i, part in enumerate(output) if _is_map(part, site)), None)
        if index is None:
            raise EncoderError(
                f"the attention of this {model.config.model_type} cannot be captured: no weights"
            )
        receive(site.rows[0], output[index].to(first))
        return type(output)([*output[:index], None, *output[index + 1 :]])

    def asked(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, kwargs | {"output_attentions": True}

    with ExitStack() as stack:
        for site in own:
            # before the hooks of transformers, which collect the weights of all layers
            hook = site.attention.register_forward_hook(functools.partial(take, site), prepend=True)
            stack.callback(hook.remove)
        if own:
            stack.callback(model.register_forward_pre_hook(asked, with_kwargs=True).remove)
        stack.enter_context(unfused(model))
        stack.enter_context(evaluating(model))
        stack.enter_context(gates.received(lambda row, weights: receive(row, weights.to(first))))
        yield


def _is_map(output: Any, site: Site) -> bool:
    """Return whether an output of attention is (batch, heads, tokens, tokens)."""
    return isinstance(output, torch.Tensor) and output.dim() == 4 and output.shape[1] == site.heads
