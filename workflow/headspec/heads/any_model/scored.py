"""Batches whose examples are scored: their losses and context vectors."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, nullcontext

import numpy as np
import torch

from headspec.heads.ablations import HalfMeans
from headspec.heads.any_model.batches import Inputs, count
from headspec.heads.any_model.contexts import Contexts, attending
from headspec.heads.any_model.derivatives import Paths
from headspec.heads.any_model.losses import Loss
from headspec.models.attention.gate_checks import first
from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Replacing, Resuming


class Scored:
    """Batches of a model, one after another.

    Parameters
    ----------
    loss : of each example, (n,)
    derivative : whether losses must have a derivative, which the first batch shows
    stack : keeps the model prepared for passes in which a head is replaced

    Attributes
    ----------
    batch, n : the current batch, and its number of examples
    donors, shift : a batch whose context vectors replace those of `batch`: of the example `shift` further on,
        or, without, of the same one with corrupted inputs
    means : of context vectors of all examples
    """

    def __init__(self, gates: HeadGates, loss: Loss, derivative: bool, stack: ExitStack) -> None:
        self.gates, self.loss = gates, loss
        self.passes = Replacing(gates) if derivative else _passes(gates, stack)
        self.means = HalfMeans()
        self.batch: Inputs = {}
        self.donors: Inputs | None = None
        self.shift: int | None = None
        self.n = self._before = 0
        self._paths = Paths(gates.model) if derivative else None

    def start(self, batch: Inputs, donors: Inputs | None = None, shift: int | None = None) -> None:
        """Go to the next batch."""
        if self.n:
            self._paths = None
        self._before += self.n
        self.batch, self.donors, self.shift = batch, donors, shift
        self.n = count(batch, self.gates.model.main_input_name)

    @property
    def half(self) -> np.ndarray:
        """The half of the examples, 0 or 1, that each sequence of the batch is in."""
        return np.repeat((self._before + np.arange(self.n)) % 2, self.gates.sequences)

    def losses(self) -> torch.Tensor:
        """Run the model and return the loss of each example, (n,).

        Raises EncoderError where something has no derivative, ValueError if `loss` returns something else.
        """
        with self._paths or nullcontext():
            outputs = self.gates.model(**self.batch)
            with self._paths.stops() if self._paths else nullcontext():
                found = self.loss(outputs, self.batch)
        if not isinstance(found, torch.Tensor):
            raise ValueError(f"loss: returned a {type(found).__name__}, expected a tensor ({self.n},)")
        if found.shape != (self.n,):
            raise ValueError(
                f"loss: returned {tuple(found.shape)}, expected ({self.n},), one for each example"
            )
        if self._paths:
            self._paths.require(found)
        return found

    @torch.no_grad()
    def contexts(self, batch: Inputs) -> Contexts:
        """Return the context vectors of a batch, by row: (batch, tokens, heads, size)."""
        self.passes.record(lambda: self.gates.model(**batch))
        return self.passes.contexts

    def average(self, batches: Iterable[Inputs]) -> None:
        """Compute the means over batches, and return to the first."""
        for batch in batches:
            self.start(batch)
            contexts = self.contexts(batch)
            self.means.add(contexts, attending(self.gates, batch, contexts), self.half)
        self.n = self._before = 0


def _passes(gates: HeadGates, stack: ExitStack) -> Resuming | Replacing:
    """Return passes in which a head is replaced, which start at its layer if the model's code allows it."""
    model = gates.model
    try:
        return stack.enter_context(Resuming(model, gates, lambda: first(model(**gates.inputs))))
    except Exception:  # of whatever code the model has
        return Replacing(gates)
