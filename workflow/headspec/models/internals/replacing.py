"""Full passes in which the context vectors of one head are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Result, Resuming, Run, replaced

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


class Replacing:
    """Full passes, with the interface of `Resuming`, for models that a `run` calls several times.

    Attributes
    ----------
    contexts : row: context vectors (batch, tokens, heads, size) of its first call in the last `record`
    """

    def __init__(self, gates: HeadGates) -> None:
        self.gates = gates
        self.contexts: dict[int, torch.Tensor] = {}

    def __enter__(self) -> Replacing:
        return self

    def __exit__(self, *error: object) -> None:
        self.contexts = {}

    def record(self, run: Callable[[], Result]) -> Result:
        """Return the result of `run`, and keep its context vectors."""
        found: dict[int, torch.Tensor] = {}

        def note(layer: int, context: torch.Tensor) -> torch.Tensor:
            found.setdefault(layer, context)
            return context

        with self.gates.edited(note):
            result = run()
        self.contexts = dict(sorted(found.items()))
        return result

    def without(self, layer: int, head: int, run: Run, instead: torch.Tensor | None = None) -> torch.Tensor:
        """As `Resuming.without`."""

        def edit(row: int, context: torch.Tensor) -> torch.Tensor:
            if row != layer:
                return context
            if instead is None:
                return replaced(context, head, None)
            beams = len(context) // len(instead)  # the beams of a text follow one another
            return replaced(context, head, instead.repeat_interleave(beams, 0))

        with self.gates.edited(edit):
            return run()


def ablating(model: MultiTask, task: str) -> Resuming | Replacing:
    """Return passes of a model on examples of a task, in which one head can be replaced."""
    if model.encoder.config.is_encoder_decoder or model.classifier(task).reads_again:
        return Replacing(model.gates)
    return Resuming(model.encoder, model.gates)
