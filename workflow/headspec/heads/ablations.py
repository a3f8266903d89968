"""Ablation of heads, and the context vectors that replace theirs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.config import values
from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Replacing, Resuming, Run

ABLATIONS = values.ZERO, values.MEAN, values.RESAMPLE
#: maps a row to replacement context vectors, (batch, tokens or 1, heads, size)
Instead = Callable[[int], torch.Tensor]
#: returns a block in which heads, bool (layers, heads), are closed
Close = Callable[[NDArray[np.bool_]], AbstractContextManager[Any]]


def closed_by(
    gates: HeadGates, instead: Instead, heads: NDArray[np.bool_], part: slice | None = None
) -> AbstractContextManager[None]:
    """Return a block in which vectors `instead` replace those of `heads`, bool (layers, heads).

    A block is for all examples of a batch, or a `part`. Where beams repeat an example, its vectors are
    repeated, too.
    """
    if part is not None:
        part = slice(part.start * gates.sequences, part.stop * gates.sequences)

    def edit(row: int, context: torch.Tensor) -> torch.Tensor:
        closed = torch.from_numpy(heads[row, : context.shape[2]]).to(context.device)
        if not closed.any():
            return context
        vectors = (instead(row) if part is None else instead(row)[part]).to(context)
        vectors = vectors.repeat_interleave(len(context) // len(vectors), 0)
        return torch.where(closed[:, None], vectors, context)

    return gates.edited(edit)


def each_replaced(
    passes: Resuming | Replacing,
    run: Run,
    exists: np.ndarray,
    instead: Instead | None = None,
) -> Iterator[torch.Tensor]:
    """Yield the result of `run` without each head of `exists`, bool (layers, heads), in order.

    Without `instead`, each head is closed. `passes` must have recorded `run`.
    """
    for row in np.flatnonzero(exists.any(axis=1)).tolist():
        vectors = None if instead is None else instead(row)
        for head in np.flatnonzero(exists[row]).tolist():
            yield passes.without(row, head, run, None if vectors is None else vectors[:, :, head])


class HalfMeans:
    """Means of context vectors over the tokens of each half of the examples.

    An example gets the means of the other half, so that its own vectors never enter its replacement.
    """

    def __init__(self) -> None:
        self._sums: dict[int, torch.Tensor] = {}  # (2, heads, size)
        self._tokens: dict[int, torch.Tensor] = {}  # (2,)

    def add(
        self, contexts: Mapping[int, torch.Tensor], attending: Mapping[int, torch.Tensor], half: np.ndarray
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        contexts : row: (batch, tokens, heads, size)
        attending : row: (batch, tokens), 1 for tokens that are not padding
        half : (batch,), 0 or 1
        """
        device = next(iter(contexts.values())).device
        member = torch.from_numpy(np.eye(2, dtype=np.float32)[half]).to(device)
        for row, context in contexts.items():
            weight = (
                member[:, None] * attending[row][..., None]
            )  # of each token in each half, (batch, tokens, 2)
            summed = torch.einsum("bthd,btk->khd", context.float(), weight)
            self._sums[row] = self._sums.get(row, 0) + summed
            self._tokens[row] = self._tokens.get(row, 0) + weight.sum((0, 1))

    def others(self, half: np.ndarray) -> dict[int, torch.Tensor]:
        """Return the other half's means for each example, row: (batch, 1, heads, size)."""
        rows = {row: sums / self._tokens[row][:, None, None] for row, sums in self._sums.items()}
        return {row: means[1 - half][:, None] for row, means in rows.items()}


def aligned(attended: torch.Tensor, others: torch.Tensor, at_end: bool) -> torch.Tensor:
    """Return, for each token, the position of the token in the other text that replaces it, (batch, tokens).

    Tokens of a shorter text repeat. `attended` and `others` are the attention masks (batch, tokens) of both
    texts; with `at_end`, tokens are aligned from the end.
    """
    own, length = (mask.sum(1, keepdim=True) for mask in (attended, others))
    places = torch.arange(attended.shape[1], device=attended.device).expand_as(attended)
    return length - 1 - (own - 1 - places) % length if at_end else places % length
