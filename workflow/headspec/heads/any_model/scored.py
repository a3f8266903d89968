"""Batches of examples to be scored: their losses, context vectors, and derivatives by gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext

import numpy as np
import torch

from headspec.errors import ModelError
from headspec.head_arrays import CROSS, DECODER
from headspec.heads.ablations import HalfMeans, aligned
from headspec.heads.any_model.batches import IGNORED, LABELS, Inputs, count
from headspec.heads.any_model.derivative_paths import Paths
from headspec.heads.any_model.halving import Halving, joined, some
from headspec.heads.any_model.losses import Loss
from headspec.models.architectures import caches
from headspec.models.attention.gate_checks import first
from headspec.models.attention.past import fresh, is_past, length
from headspec.models.attention.placement import checkpointing
from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Replacing, Resuming

#: row: context vectors (batch, tokens, heads, size)
Contexts = Mapping[int, torch.Tensor]


def attending(gates: HeadGates, batch: Inputs, contexts: Contexts) -> dict[int, torch.Tensor]:
    """Return which tokens are not padding, row: (batch, tokens); all tokens if a batch has no mask."""
    return {row: _real(batch, gates.kind(row), context) for row, context in contexts.items()}


def _real(batch: Inputs, kind: str, context: torch.Tensor) -> torch.Tensor:
    """Return the mask (batch, tokens) of a row's context vectors (batch, tokens, heads, size)."""
    if kind in (DECODER, CROSS):
        mask, labels = batch.get("decoder_attention_mask"), batch.get(LABELS)
        if mask is None and isinstance(labels, torch.Tensor) and labels.dim() > 1:
            mask = labels != IGNORED
    else:
        mask = batch.get("attention_mask")
    if isinstance(mask, torch.Tensor) and mask.dim() > 1:
        mask = mask.flatten(0, -2)  # choices of an example are texts
        if mask.shape[1] == length(batch) + context.shape[1]:
            mask = mask[:, length(batch) :]
        if mask.shape == context.shape[:2]:
            return mask.to(context.device, torch.long)
    return torch.ones(context.shape[:2], dtype=torch.long, device=context.device)


def of_others(
    gates: HeadGates, batch: Inputs, contexts: Contexts, donors: Inputs, donated: Contexts, shift: int
) -> Callable[[int], torch.Tensor]:
    """Return a function from a row to replacement context vectors, (batch, tokens, heads, size).

    Example i gets the `donated` vectors of donor i + `shift`, modulo the number of donors. Tokens without
    padding are aligned from the end under causal attention, else from the beginning, and repeat where the
    donor is shorter (`headspec.heads.ablations.aligned`). Padding keeps its own vectors.
    """
    own, theirs = attending(gates, batch, contexts), attending(gates, donors, donated)
    at_end = caches(gates.model.config.to_dict())

    def instead(row: int) -> torch.Tensor:
        mask = own[row]
        donor = (torch.arange(len(mask), device=mask.device) + shift * gates.sequences) % len(theirs[row])
        other = theirs[row][donor]
        other = torch.where(other.any(1, keepdim=True), other, 1)  # (batch, donor's tokens)
        by_rank = aligned(mask, other, at_end)  # (batch, tokens)
        ranks = (mask.cumsum(1) - 1).clamp(min=0)
        order = other.argsort(dim=1, descending=True, stable=True)  # real tokens first
        places = order.gather(1, by_rank.gather(1, ranks))  # (batch, tokens)
        moved = donated[row][donor].take_along_dim(places[..., None, None], 1)
        return torch.where(mask.bool()[..., None, None], moved, contexts[row])

    return instead


class Scored:
    """A model's batches, processed one after another.

    Parameters
    ----------
    loss : of each example, (n,)
    derivative : whether losses must have a derivative, which the first pass shows
    stack : keeps the model prepared for passes in which a head is replaced

    Attributes
    ----------
    batch, n : the current batch, and its number of examples
    donors, shift : a batch whose context vectors replace those of `batch`: those of the example `shift`
        further on or, if `shift` is None, of the same example with corrupted inputs
    means : of context vectors of all examples
    """

    def __init__(self, gates: HeadGates, loss: Loss, derivative: bool, stack: ExitStack) -> None:
        self.gates, self.loss = gates, loss
        self.passes = Replacing(gates) if derivative else _passes(gates, stack)
        self.means, self.halving = HalfMeans(), Halving(gates.model)
        self.batch: Inputs = {}
        self.donors: Inputs | None = None
        self.shift: int | None = None
        self.n = self._before = 0
        self._paths = Paths(gates.model) if derivative else None  # until a pass has been checked

    def start(self, batch: Inputs, donors: Inputs | None = None, shift: int | None = None) -> None:
        """Set the current batch."""
        self.batch, self.donors, self.shift = batch, donors, shift
        self.n = count(batch, self.gates.model.main_input_name)

    @property
    def half(self) -> np.ndarray:
        """The half, 0 or 1, that each sequence of the batch belongs to, (sequences,)."""
        return np.repeat((self._before + np.arange(self.n)) % 2, self.gates.sequences)

    def values(
        self,
        compute: Callable[[Scored], torch.Tensor],
        batch: Inputs,
        donors: Inputs | None = None,
        shift: int | None = None,
    ) -> Iterator[torch.Tensor]:
        """Yield the values of the next batch by `compute`, in parts that fit in memory, (part, ...)."""
        main = self.gates.model.main_input_name

        def of(part: slice) -> torch.Tensor:
            if shift is None:
                self.start(some(batch, part, main), donors and some(donors, part, main))
            else:
                self.start(some(batch, part, main), donors, shift + part.start)
            values = compute(self).detach()
            self._before += self.n  # not if memory runs out: these examples start again
            return values

        yield from self.halving.over(count(batch, main), of)

    def losses(self) -> torch.Tensor:
        """Run the model and return the loss of each example, (n,).

        Raises ModelError if the first pass shows that a derivative is missing, and ValueError if `loss`
        returns anything but a tensor (n,).
        """
        shared = any(len(site.rows) > 1 for site in self.gates.sites)  # whose calls are counted
        kept = shared or any(map(is_past, self.batch.values()))  # which layers that compute again do not see
        with self._paths or nullcontext(), nullcontext() if kept else checkpointing(self.gates.model):
            try:
                outputs = self.gates.model(**fresh(self.batch))
            except NotImplementedError as error:
                if not self._paths:
                    raise
                raise ModelError(f"the loss has no derivative: {error}") from None
            with self._paths.stops() if self._paths else nullcontext():
                returned = self.loss(outputs, self.batch)
        if not isinstance(returned, torch.Tensor):
            raise ValueError(f"loss: returned a {type(returned).__name__}, expected a tensor ({self.n},)")
        if returned.shape != (self.n,):
            raise ValueError(
                f"loss: returned {tuple(returned.shape)}, expected ({self.n},), one for each example"
            )
        if self._paths:
            self._paths.require(returned)
            self._paths = None
        return returned

    @torch.no_grad()
    def contexts(self, batch: Inputs) -> Contexts:
        """Return the context vectors of a batch, by row: (batch, tokens, heads, size)."""
        main = self.gates.model.main_input_name

        def of(part: slice) -> dict[int, torch.Tensor]:
            self.passes.record(lambda: self.gates.model(**fresh(some(batch, part, main))))
            return dict(self.passes.contexts)

        return joined([*self.halving.over(count(batch, main), of)])

    def average(self, batches: Iterable[Inputs]) -> None:
        """Compute `means` over `batches`, whose first one is then the next."""
        for batch in batches:
            self.start(batch)
            contexts = self.contexts(batch)
            self.means.add(contexts, attending(self.gates, batch, contexts), self.half)
            self._before += self.n
        self._before = 0


def _passes(gates: HeadGates, stack: ExitStack) -> Resuming | Replacing:
    """Return passes that replace one head; they start at its layer if the model's code allows it."""
    model = gates.model
    try:
        return stack.enter_context(Resuming(model, gates, lambda: first(model(**gates.inputs))))
    except Exception:  # the model's code may raise anything
        return Replacing(gates)
