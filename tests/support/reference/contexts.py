"""Context vectors where W_O takes them, by hooks and weights instead of gates."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch

from headspec.models.gates import HeadGates


@contextmanager
def at_outputs(
    gates: HeadGates, change: Callable[[int, torch.Tensor], torch.Tensor | None]
) -> Iterator[None]:
    """Whole passes in which `change` sees what W_O of each row is given, and may return something else.

    Parameters
    ----------
    change : takes a row and its context vectors (batch, tokens, heads, size)
    """

    def hook(site, calls, module, args):
        context = args[0].unflatten(-1, (site.heads, site.size))
        changed = change(site.rows[next(calls) % len(site.rows)], context)
        return None if changed is None else (changed.flatten(-2), *args[1:])

    with ExitStack() as stack:
        for site in gates.sites:
            calls = itertools.count()  # several in a pass where layers share a module
            handle = site.output.register_forward_pre_hook(
                lambda module, args, site=site, calls=calls: hook(site, calls, module, args)
            )
            stack.callback(handle.remove)
        yield


@contextmanager
def seen(gates: HeadGates) -> Iterator[dict[int, torch.Tensor]]:
    """What W_O of each row is given first in passes within the block, (batch, tokens, heads, size)."""
    found: dict[int, torch.Tensor] = {}

    def keep(row: int, context: torch.Tensor) -> torch.Tensor:
        found.setdefault(row, context)
        return context  # so that gradients reach it

    with at_outputs(gates, keep):
        yield found


@contextmanager
def replaced(gates: HeadGates, row: int, head: int, vectors: torch.Tensor) -> Iterator[None]:
    """Passes in which W_O of a row is given other vectors of a head.

    Parameters
    ----------
    vectors : (tokens, size) for the first tokens, or (1, size) for all
    """

    def change(each: int, context: torch.Tensor) -> torch.Tensor | None:
        if each != row:
            return None
        context = context.clone()
        context[:, : len(vectors) if len(vectors) > 1 else None, head] = vectors
        return context

    with at_outputs(gates, change):
        yield


def without_columns(gates: HeadGates, heads: np.ndarray) -> None:
    """Set the columns of W_O of `heads`, bool (rows, heads), to zero."""
    with torch.no_grad():
        for row, head in zip(*np.nonzero(heads), strict=True):
            gates.site(row).columns()[head] = 0


@contextmanager
def zeroed(gates: HeadGates, heads: np.ndarray) -> Iterator[None]:
    """The same for passes within the block."""
    saved = [site.columns().clone() for site in gates.sites]
    without_columns(gates, heads)
    try:
        yield
    finally:
        with torch.no_grad():
            for site, columns in zip(gates.sites, saved, strict=True):
                site.columns().copy_(columns)
