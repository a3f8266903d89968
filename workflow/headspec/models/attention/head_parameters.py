"""The attention weights of each head: rows of W_Q, W_K and W_V, columns of W_O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np
import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.interface import evaluating, unfused
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import on
from headspec.models.attention.projections import by_columns, is_linear
from headspec.models.attention.sites import Site
from headspec.models.gates import HeadGates


@dataclass(frozen=True)
class Slice:
    """A head's slice of one parameter: rows, or columns if `across` (in GPT's Conv1D, (in, out), and in W_O).

    `heads`, bool (layers, heads), are those that use the slice; several if weights are shared by the query
    heads of a group (grouped-query attention), by all heads (latent attention, a norm over all), or by layers
    (ALBERT).
    """

    parameter: nn.Parameter
    across: bool
    start: int
    stop: int
    heads: np.ndarray

    def view(self, whole: torch.Tensor) -> torch.Tensor:
        """Return the slice of a tensor with the shape of `parameter`."""
        return (whole.T if self.across else whole)[self.start : self.stop]

    def belongs(self, heads: np.ndarray) -> bool:
        """Return whether one of `heads`, bool (layers, heads), uses the slice."""
        return bool((self.heads & heads).any())


def head_slices(gates: HeadGates, projections: str) -> list[Slice]:
    """Return the slices of all heads in all attention projections, "qkv" or "qkvo" (with W_O).

    Rows of queries, keys and values are found whatever the layers are called: a nan gradient at a head's
    context vectors makes the gradients nan of exactly the rows that these vectors depend on. The bias of W_O,
    norms and position embeddings belong to no head. Raises ModelError if, with "qkvo", columns of W_O do not
    belong to heads, because another operation comes before it, or W_O is quantised or divided.
    """
    slices: list[Slice] = []
    with _contexts(gates) as contexts:
        for site in gates.sites:
            served = np.zeros_like(gates.exists)
            served[site.rows] = gates.exists[site.rows]
            slices += _inputs(site, contexts[site.rows[0]], served)
            if projections != "qkvo":
                continue
            if site.output is None:
                model_type = gates.model.config.model_type
                raise ModelError(
                    f"the columns of W_O of this {model_type} are not those of heads: something comes "
                    f"between the context vectors of '{site.name}' and W_O"
                )
            if not site.seen:
                raise ModelError(f"W_O of '{site.name}' is quantised or divided; expected floats")
            for layer, head in product(site.matrices(), range(site.heads)):
                weight: Any = layer.weight
                one = served & (np.arange(served.shape[1]) == head)
                start = head * site.size
                slices.append(Slice(weight, by_columns(layer), start, start + site.size, one))
    return slices


@contextmanager
def _contexts(gates: HeadGates) -> Iterator[dict[int, torch.Tensor]]:
    """Yield the context vectors of a small pass, row: (batch, tokens, heads, size).

    In the block, they have gradients with respect to all parameters; fused kernels may lack these.
    """
    contexts: dict[int, torch.Tensor] = {}

    def note(row: int, context: torch.Tensor) -> torch.Tensor:
        contexts[row] = context
        return context.detach()

    frozen = [p for p in gates.model.parameters() if not p.requires_grad and p.is_floating_point()]
    for parameter in frozen:
        parameter.requires_grad_(True)
    device = device_of(gates.model)  # the model may have moved since it was given gates
    try:
        with torch.enable_grad(), evaluating(gates.model), unfused(gates.model), gates.edited(note):
            gates.model(**on(device, gates.inputs))
        yield contexts
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _inputs(site: Site, context: torch.Tensor, served: np.ndarray) -> Iterator[Slice]:
    """Yield the slices of the parameters that compute queries, keys and values."""
    layers = filter(is_linear, site.attention.modules())
    linear = {id(p) for layer in layers for p in layer.parameters(recurse=False)}
    for parameter, across, owned in _reached(site, context):
        # heads may share rows of a linear layer; other parameters that all share (a norm, say) belong to none
        if (owned != owned[:1]).any() or (owned.any() and id(parameter) in linear):
            yield from _runs(parameter, across, owned, served)


def _reached(site: Site, context: torch.Tensor) -> Iterator[tuple[nn.Parameter, bool, np.ndarray]]:
    """Yield parameters except W_O, whether heads use columns, and which: bool (heads, rows or columns)."""
    outside = {id(p) for p in site.output.parameters()} if site.output is not None else set()
    modules = [module for module in site.attention.modules() if not isinstance(module, nn.Embedding)]
    inside = dict.fromkeys(p for module in modules for p in module.parameters(recurse=False))
    parameters = [p for p in inside if id(p) not in outside and p.is_floating_point()]
    by_head: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
    for head in range(site.heads):
        seed = torch.zeros_like(context)
        seed[:, :, head] = torch.nan
        gradients = torch.autograd.grad(
            context, parameters, seed, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        by_head.append([_rows_and_columns(gradient.isnan()) for gradient in gradients])
    for parameter, by_heads in zip(parameters, zip(*by_head, strict=True), strict=True):
        rows, columns = (torch.stack(parts).cpu().numpy() for parts in zip(*by_heads, strict=True))
        across = not (rows != rows[:1]).any() and bool((columns != columns[:1]).any())
        yield parameter, across, columns if across else rows


def _rows_and_columns(entries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which rows, (rows,), and which columns, (columns,), of a matrix have true entries."""
    rows = entries.flatten(1).any(1) if entries.dim() > 1 else entries
    return rows, entries.any(0) if entries.dim() == 2 else entries.new_zeros(1)


def _runs(parameter: nn.Parameter, across: bool, owned: np.ndarray, served: np.ndarray) -> Iterator[Slice]:
    """Yield a slice for each run of rows that the same heads use.

    `owned` is bool (heads, rows or columns), `served` bool (layers, heads).
    """
    start = 0
    for heads, run in groupby(map(tuple, owned.T.tolist())):
        stop = start + len(list(run))
        users = np.zeros(served.shape[1], dtype=bool)
        # rows that no context vector depends on, such as those of a later gate, belong to all heads
        users[: len(heads)] = heads if any(heads) else True
        yield Slice(parameter, across, start, stop, served & users)
        start = stop
