"""Passes of an encoder-decoder in which one head makes something else, at every token that it writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import nn

from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Result, Resuming, Run

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


class Replacing:
    """Full passes, with the interface of `Resuming`.

    An encoder-decoder calls its decoder once to read a text and many times to write one, so that the order of
    calls says nothing of what can be kept.

    Attributes
    ----------
    contexts : for each layer, the input of its W_O (batch, tokens, heads * size) in the last `record`, when
        the layer was called first
    """

    def __init__(self, gates: HeadGates) -> None:
        self.gates = gates
        self._found: dict[int, torch.Tensor] | None = None  # while recording
        self._replaced: tuple[int, int, torch.Tensor | None] | None = None
        self.contexts: list[torch.Tensor] = []

    def __enter__(self) -> Replacing:
        # projections are in the order of layers, and none is shared
        self._hooks = [
            projection.register_forward_pre_hook(functools.partial(self._replace, layer))
            for layer, projection in enumerate(self.gates.projections)
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self.contexts = []

    def _replace(self, layer: int, projection: nn.Module, args: tuple) -> tuple | None:
        context = args[0]
        if self._found is not None:
            self._found.setdefault(layer, context)
        if self._replaced is None or self._replaced[0] != layer:
            return None
        _, head, instead = self._replaced
        by_head = context.unflatten(-1, (self.gates.heads, -1)).clone()
        by_head[..., head, :] = 0
        if instead is not None:
            beams = len(context) // len(instead)  # of a text follow one another
            by_head[..., head, :] = instead.to(context.dtype).repeat_interleave(beams, 0)
        return by_head.flatten(-2), *args[1:]

    def record(self, run: Callable[[], Result]) -> Result:
        """The result of `run`."""
        self._found = {}
        try:
            return run()
        finally:
            self.contexts, self._found = [self._found[layer] for layer in sorted(self._found)], None

    def without(self, layer: int, head: int, run: Run, instead: torch.Tensor | None = None) -> torch.Tensor:
        """The result of `run` without a head's contribution to its layer.

        Parameters
        ----------
        instead : (batch, tokens or 1, size), optional
            Context vectors of the tokens, or one for all tokens of a text, in place of the head's own.
        """
        self._replaced = layer, head, instead
        try:
            return run()
        finally:
            self._replaced = None


def ablating(model: MultiTask) -> Resuming | Replacing:
    """Passes of a model with one head replaced."""
    if model.encoder.config.is_encoder_decoder:
        return Replacing(model.gates)
    return Resuming(model.encoder, model.gates)
