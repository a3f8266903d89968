"""The attention weights of each head: rows of W_Q, W_K and W_V, columns of W_O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from headspec.errors import EncoderError
from headspec.models.attention.sites import Site, by_columns
from headspec.models.modes import evaluating

if TYPE_CHECKING:
    from headspec.models.gates import HeadGates


@dataclass(frozen=True)
class Slice:
    """A head's slice of one parameter.

    Attributes
    ----------
    parameter : the whole parameter
    across : whether the slice is of columns: in GPT's Conv1D, which is (in, out), and in W_O
    start, stop : range of rows or columns
    heads : bool (layers, heads)
        The heads that use the slice. There are several where weights are shared: by the query heads of a
        group (keys and values of grouped-query attention), by all heads (latent attention, a norm over all of
        them), or by layers with one module (ALBERT).
    """

    parameter: nn.Parameter
    across: bool
    start: int
    stop: int
    heads: np.ndarray

    def of(self, whole: torch.Tensor) -> torch.Tensor:
        """A view of the slice in a tensor `whole` with the shape of `parameter`."""
        return (whole.T if self.across else whole)[self.start : self.stop]

    def belongs(self, heads: np.ndarray) -> bool:
        """Whether one of `heads`, bool (layers, heads), uses the slice."""
        return bool((self.heads & heads).any())


def head_slices(gates: HeadGates, projections: str) -> list[Slice]:
    """The slices of all heads in all attention projections.

    Rows of queries, keys and values are those that a head's context vectors depend on, whatever the layers
    are called: a gradient of nan at these vectors makes the gradients of the rows nan, and no others.

    Parameters
    ----------
    projections : {"qkv", "qkvo"}
        Without or with W_O. The bias of W_O, norms and embeddings of positions belong to no head.

    Raises
    ------
    EncoderError
        With "qkvo", the columns of W_O are not those of heads, because something comes before it.
    """
    slices: list[Slice] = []
    with contexts(gates) as found:
        for site in gates.sites:
            served = np.zeros_like(gates.exists)
            served[site.rows] = gates.exists[site.rows]
            slices += _inputs(site, found[site.rows[0]], served)
            if projections != "qkvo":
                continue
            if site.output is None:
                kind = gates.model.config.model_type
                raise EncoderError(
                    f"the columns of W_O of this {kind} are not those of heads: something comes between the "
                    f"context vectors of '{site.name}' and W_O"
                )
            slices += list(_outputs(site, served))
    return slices


@contextmanager
def contexts(gates: HeadGates) -> Iterator[dict[int, torch.Tensor]]:
    """Context vectors of every row in a small pass, computed from parameters that all have gradients."""
    found: dict[int, torch.Tensor] = {}

    def note(row: int, context: torch.Tensor) -> torch.Tensor:
        found[row] = context
        return context.detach()

    frozen = [p for p in gates.model.parameters() if not p.requires_grad and p.is_floating_point()]
    for parameter in frozen:
        parameter.requires_grad_(True)
    device = next(gates.model.parameters()).device  # the model may have moved since it was given gates
    try:
        with torch.enable_grad(), evaluating(gates.model), gates.edited(note):
            gates.model(
                **{
                    name: value.to(device) if isinstance(value, torch.Tensor) else value
                    for name, value in gates.inputs.items()
                }
            )
        yield found
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _inputs(site: Site, context: torch.Tensor, served: np.ndarray) -> Iterator[Slice]:
    """The slices of the parameters that queries, keys and values are computed with."""
    linear = {
        id(p)
        for module in site.attention.modules()
        for p in module.parameters(recurse=False)
        if isinstance(weight := getattr(module, "weight", None), torch.Tensor) and weight.dim() == 2
    }
    for parameter, across, owned in reached(site, context, range(site.heads)):
        # heads may share rows of a linear layer; what all share of a norm, say, belongs to none
        if (owned != owned[:1]).any() or (owned.any() and id(parameter) in linear):
            yield from _runs(parameter, across, owned, served)


def reached(
    site: Site, context: torch.Tensor, heads: Sequence[int]
) -> Iterator[tuple[nn.Parameter, bool, np.ndarray]]:
    """What the context vectors of heads are computed with, of each parameter of their attention but W_O.

    Yields
    ------
    the parameter, whether heads are told apart by its columns, and bool (heads, its rows or columns)
    """
    outside = {id(p) for p in site.output.parameters()} if site.output is not None else set()
    parameters = [
        p
        for module in site.attention.modules()
        for p in module.parameters(recurse=False)
        if id(p) not in outside and not isinstance(module, nn.Embedding) and p.is_floating_point()
    ]
    parameters = list(dict.fromkeys(parameters))
    entries: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in parameters]
    for head in heads:
        seed = torch.zeros_like(context)
        seed[:, :, head] = torch.nan
        gradients = torch.autograd.grad(
            context, parameters, seed, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for of_parameter, gradient in zip(entries, gradients, strict=True):
            of_parameter.append(_rows_and_columns(gradient.isnan()))
    for parameter, of_parameter in zip(parameters, entries, strict=True):
        rows, columns = (torch.stack(each).cpu().numpy() for each in zip(*of_parameter, strict=True))
        across = not (rows != rows[:1]).any() and bool((columns != columns[:1]).any())
        yield parameter, across, columns if across else rows


def _rows_and_columns(entries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Which rows have true entries, and which columns of a matrix."""
    rows = entries.flatten(1).any(1) if entries.dim() > 1 else entries
    return rows, entries.any(0) if entries.dim() == 2 else entries.new_zeros(1)


def _runs(parameter: nn.Parameter, across: bool, owned: np.ndarray, served: np.ndarray) -> Iterator[Slice]:
    """A slice for each run of rows that the same heads use."""
    start = 0
    for heads, run in groupby(map(tuple, owned.T.tolist())):
        stop = start + len(list(run))
        users = np.zeros(served.shape[1], dtype=bool)
        # rows that no context vector depends on, such as of a gate behind it, are of all heads
        users[: len(heads)] = heads if any(heads) else True
        yield Slice(parameter, across, start, stop, served & users)
        start = stop


def _outputs(site: Site, served: np.ndarray) -> Iterator[Slice]:
    """The columns of W_O that each head's context vectors meet."""
    assert site.output is not None
    weight: Any = site.output.weight
    for head in range(site.heads):
        one = np.arange(served.shape[1]) == head
        yield Slice(weight, by_columns(site.output), head * site.size, (head + 1) * site.size, served & one)
