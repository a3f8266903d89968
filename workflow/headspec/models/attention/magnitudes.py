"""Magnitudes of heads: norms of W_V W_O, which need no examples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.interface import Attended, Attention, evaluating, watched
from headspec.models.attention.projections import inputs_first, is_linear, is_plain
from headspec.models.attention.sites import Site
from headspec.models.gates import HeadGates

#: relative difference from the outputs of a layer up to which its weights explain them
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 2e-2}


@torch.no_grad()
def magnitudes(gates: HeadGates) -> NDArray[np.float64]:
    """Return the Frobenius norm of W_V W_O of each head, (layers, heads), nan where there is no head.

    The columns of W_V are found in a small pass, whatever the layers are called: they are those of the linear
    layer whose outputs are the values that attention is given. Query heads that share values share W_V.
    Biases, norms and scales of the states do not count.

    Raises ModelError if W_V or W_O are not plain floats, W_O has adapters, something comes between them and
    attention, or attention is not computed at the interface.
    """
    norms = np.full(gates.exists.shape, np.nan)
    for site in gates.sites:
        try:
            norms[site.rows, : site.heads] = _of_site(gates, site)
        except ModelError as error:
            raise ModelError(f"score 'magnitude': {error}") from None
    return norms


def _of_site(gates: HeadGates, site: Site) -> NDArray[np.float64]:
    """Return the norms of a site's heads, (heads,)."""
    if not site.seen or len(site.matrices()) > 1:
        raise ModelError(f"W_O of '{site.name}' is not one whole matrix of floats after attention")
    w_v = _w_v(site, *_pass(gates, site))
    w_v = w_v.repeat_interleave(site.heads // len(w_v), dim=0)
    w_o = site.columns().to(w_v)  # (heads, size, outputs)
    # the squared norm of V O is the sum of V'V * OO'
    squares = ((w_v.mT @ w_v) * (w_o @ w_o.mT)).sum((1, 2))
    norms: NDArray[np.float64] = squares.clamp(min=0).sqrt().cpu().numpy()
    return norms


#: linear layer, its inputs (..., inputs) and outputs (..., outputs)
Call = tuple[nn.Module, torch.Tensor, torch.Tensor]


def _pass(gates: HeadGates, site: Site) -> tuple[torch.Tensor, list[Call]]:
    """Return the first values for attention, (batch, key heads, tokens, size), and earlier linear layers."""
    seen: list[torch.Tensor] = []
    calls: list[Call] = []

    def watch(attention: Attention, _: nn.Module, *states: torch.Tensor) -> Attended:
        seen.append(states[2])
        return attention(*states)

    def note(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not seen and args and isinstance(output, torch.Tensor):
            calls.append((layer, args[0], output))

    with ExitStack() as stack:
        stack.enter_context(evaluating(gates.model))
        stack.enter_context(watched(site.attention, watch))
        for layer in filter(is_linear, site.attention.modules()):
            stack.callback(layer.register_forward_hook(note).remove)
        gates.model(**gates.inputs)
    if not seen:
        raise ModelError(f"'{site.name}' computes attention without the interface that shows its values")
    return seen[0], calls


def _w_v(site: Site, values: torch.Tensor, calls: list[Call]) -> torch.Tensor:
    """Return W_V, (key heads, inputs, size), of `values`, (batch, key heads, tokens, size)."""
    wanted = values.movedim(2, 1).flatten(0, 1).flatten(1)  # (tokens of all texts, heads * size)
    for layer, states, outputs in calls:
        places = _places(wanted, outputs.flatten(0, -2))
        if places is None:
            continue
        if not is_plain(layer.weight):
            raise ModelError(f"W_V of '{site.name}' is quantised, divided or offloaded; expected floats")
        w_v = inputs_first(layer)[:, places].double()
        off = wanted.double() - states.flatten(0, -2).double() @ w_v
        off -= off.mean(dim=0)  # the bias
        if off.abs().max() <= TOLERANCE.get(wanted.dtype, 0.0) * wanted.abs().max():
            by_head: torch.Tensor = w_v.unflatten(1, (values.shape[1], -1)).movedim(0, 1)
            return by_head
    raise ModelError(f"the values of '{site.name}' are not those of one linear layer with plain weights")


def _places(wanted: torch.Tensor, outputs: torch.Tensor) -> list[int] | None:
    """Return where the columns of `wanted` are in `outputs`, (tokens, columns); None if one is missing."""
    if len(outputs) != len(wanted) or outputs.dtype != wanted.dtype:
        return None
    place = {key: number for number, key in enumerate(_keys(outputs))}
    places = [place.get(key) for key in _keys(wanted)]
    return [each for each in places if each is not None] if None not in places else None


def _keys(columns: torch.Tensor) -> Iterator[bytes]:
    """Yield the bytes of each column."""
    for column in columns.T.cpu().contiguous().view(torch.uint8).numpy():
        yield column.tobytes()
