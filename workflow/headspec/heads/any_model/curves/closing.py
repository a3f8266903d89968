"""Replacements for the context vectors of closed heads: zeros, means, or vectors of other examples."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.config.values import MEAN, ZERO
from headspec.errors import nearest
from headspec.heads.ablations import (
    ABLATIONS,
    HalfMeans,
    Instead,
    closed_by,
)
from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import Inputs, count
from headspec.heads.any_model.halving import Halving, joined, some
from headspec.heads.any_model.scored import Contexts, attending, of_others
from headspec.models.attention.past import fresh
from headspec.models.attention.sites import FOLDED
from headspec.models.gates import HeadGates
from headspec.models.internals.resuming import Replacing

#: returns a block in which heads, bool (layers, heads), are closed for part of a batch
Close = Callable[[NDArray[np.bool_], slice], AbstractContextManager[Any]]


def check(ablation: str) -> None:
    """Raise ValueError if there is no such ablation."""
    if ablation not in ABLATIONS:
        known = ", ".join(ABLATIONS)
        raise ValueError(
            f"ablation: got '{ablation}', expected one of {known}.{nearest(ablation, ABLATIONS)}"
        )


def closers(
    gates: HeadGates, ablation: str, ranking: Sequence[Inputs] | None, evaluated: Sequence[Inputs]
) -> Iterator[Close]:
    """Yield a function for each evaluated batch that closes heads there, by `replacements`."""
    for instead in replacements(gates, ablation, ranking, evaluated):
        yield (
            functools.partial(closed_by, gates, instead) if instead else lambda heads, _: gates.closed(heads)
        )


def replacements(
    gates: HeadGates, ablation: str, ranking: Sequence[Inputs] | None, evaluated: Sequence[Inputs]
) -> Iterator[Instead | None]:
    """Yield what replaces the vectors of closed heads in each evaluated batch; None for zeros.

    Means and vectors are of the examples in `ranking`, to which no evaluated example belongs. Without them,
    means are of the half of the evaluated examples that lacks the example itself, and vectors of another one.
    Raises ValueError for models that fold more than examples into their batch.
    """
    if ablation == ZERO:
        yield from itertools.repeat(None, len(evaluated))
        return
    if gates.folded:
        raise ValueError(
            f"ablation: got '{ablation}' for a model that folds {FOLDED} into its batch; expected '{ZERO}'"
        )
    yield from (_means if ablation == MEAN else _resampled)(gates, ranking, evaluated)


def recorded(gates: HeadGates, batch: Inputs) -> Contexts:
    """Return the context vectors of a batch, row: (batch, tokens, heads, size)."""
    passes, main = Replacing(gates), gates.model.main_input_name

    def of(part: slice) -> dict[int, torch.Tensor]:
        passes.record(lambda: gates.model(**fresh(some(batch, part, main))))
        return passes.contexts

    return joined([*Halving(gates.model).over(count(batch, main), of)])


def _means(
    gates: HeadGates, ranking: Sequence[Inputs] | None, evaluated: Sequence[Inputs]
) -> Iterator[Instead]:
    """Yield means of context vectors for each evaluated batch, by row."""
    means, main = HalfMeans(), gates.model.main_input_name
    sizes = [count(batch, main) for batch in evaluated]
    places = np.split(np.arange(sum(sizes)) % 2, np.cumsum(sizes)[:-1])
    averaged = zip(evaluated, places, strict=True)
    if ranking is not None:  # half 0, whose means the others get
        averaged = zip(ranking, (np.zeros(count(batch, main), dtype=int) for batch in ranking), strict=True)
        places = [np.ones(size, dtype=int) for size in sizes]
    for batch, half in averaged:
        found = recorded(gates, batch)
        means.add(found, attending(gates, batch, found), np.repeat(half, gates.sequences))
    for half in places:
        yield means.others(np.repeat(half, gates.sequences)).__getitem__


def _resampled(
    gates: HeadGates, ranking: Sequence[Inputs] | None, evaluated: Sequence[Inputs]
) -> Iterator[Instead]:
    """Yield context vectors of other examples for each evaluated batch, by row."""
    pairs: Iterator[user_model.Pair] = user_model.with_others(evaluated, gates.model.main_input_name)
    if ranking is not None:
        pairs = ((batch, other, 0) for batch, other in zip(evaluated, itertools.cycle(ranking), strict=False))
    for batch, donors, shift in pairs:
        assert donors is not None and shift is not None
        vectors = recorded(gates, batch)
        donated = vectors if donors is batch else recorded(gates, donors)
        yield of_others(gates, batch, vectors, donors, donated, shift)
