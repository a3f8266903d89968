"""Passes in which one head makes something else, however often the model is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Result, Resuming, Run, replaced

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


class Replacing:
    """Full passes, with the interface of `Resuming`.

    An encoder-decoder calls its decoder once to read a text and many times to write one, and some examples
    are read in several passes, so that the order of calls says nothing of what can be kept.

    Attributes
    ----------
    contexts : row: its context vectors (batch, tokens, heads, size) in the last `record`, when it was called
        first
    """

    def __init__(self, gates: HeadGates) -> None:
        self.gates = gates
        self.contexts: dict[int, torch.Tensor] = {}

    def __enter__(self) -> Replacing:
        return self

    def __exit__(self, *error: object) -> None:
        self.contexts = {}

    def record(self, run: Callable[[], Result]) -> Result:
        """The result of `run`."""
        found: dict[int, torch.Tensor] = {}

        def note(layer: int, context: torch.Tensor) -> torch.Tensor:
            found.setdefault(layer, context)
            return context

        with self.gates.edited(note):
            result = run()
        self.contexts = dict(sorted(found.items()))
        return result

    def without(self, layer: int, head: int, run: Run, instead: torch.Tensor | None = None) -> torch.Tensor:
        """The result of `run` without a head's contribution to its layer.

        Parameters
        ----------
        instead : (batch, tokens or 1, size), optional
            Context vectors of the tokens, or one for all tokens of a text, in place of the head's own.
        """

        def edit(row: int, context: torch.Tensor) -> torch.Tensor:
            if row != layer:
                return context
            beams = 1 if instead is None else len(context) // len(instead)  # of a text follow one another
            return replaced(context, head, None if instead is None else instead.repeat_interleave(beams, 0))

        with self.gates.edited(edit):
            return run()


def ablating(model: MultiTask, task: str) -> Resuming | Replacing:
    """Passes of a model on examples of a task with one head replaced."""
    if model.encoder.config.is_encoder_decoder or model.classifier(task).reads_again:
        return Replacing(model.gates)
    return Resuming(model.encoder, model.gates)
