"""Proof, at loading, that gates act on the heads of a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.interface import Attended, Attention, unfused, watched
from headspec.models.attention.probe_inputs import TARGETS
from headspec.models.attention.sites import Site, is_linear

if TYPE_CHECKING:
    from headspec.models.gates import HeadGates


def check(gates: HeadGates) -> None:
    """Raise ModelError if gates do not act on heads.

    Gates of one must change no bit; a closed head must change the output; its context vectors must come from
    its own values alone or, where these are not known, from units that another head does not use. Where a
    closed gate differs from zeroing the head's columns of W_O, sites lose their W_O, unless heads are gated
    there.
    """
    device = next(gates.model.parameters()).device

    @torch.no_grad()
    def states(values: torch.Tensor | None = None) -> torch.Tensor:
        gates.values = values
        try:
            return first(gates.model(**gates.inputs))
        finally:
            gates.values = None

    plain, ones = states(), torch.ones(gates.layers, gates.heads, device=device)
    if not torch.equal(states(ones), plain):
        raise ModelError("gates of one change its output")
    for kind in gates.first_rows:
        here = [site for site in gates.sites if site.kind == kind]
        for site in here[:1] + here[1:][-1:]:  # the first and the last
            (_own_units if site.own else _own_values)(gates, site)
            head, values = site.heads - 1, ones.clone()
            values[site.rows, head] = 0
            closed = states(values)
            if torch.equal(closed, plain):
                raise ModelError(f"closing head {head} of '{site.name}' changes nothing")
            if site.output is not None and not _zeroed(site, head, closed, states):
                if site.own:
                    raise ModelError(f"closing head {head} of '{site.name}' differs from zeroing its weights")
                for other in gates.sites:
                    other.output = None
    _every_row(gates, states)


def _every_row(gates: HeadGates, states: Callable[[], torch.Tensor]) -> None:
    """Raise ModelError if a row is not gated when attention is unfused, as for its weights and on CPUs."""
    with unfused(gates.model), gates.recorded() as seen:
        states()
    if missing := [site.name for site in gates.sites if not seen.keys() >= {*site.rows}]:
        raise ModelError(f"without fused attention, gates of '{missing[0]}' do not act")


def first(output: Any) -> torch.Tensor:
    """Return the logits of an output, else its first tensor."""
    logits = getattr(output, "logits", None)
    return logits if isinstance(logits, torch.Tensor) else output[0]


def _zeroed(site: Site, head: int, closed: torch.Tensor, states: Callable[[], torch.Tensor]) -> bool:
    """Return whether the states `closed`, without a head, are those with its columns of W_O at 0."""
    with torch.no_grad():
        columns = [site.columns(layer)[head] for layer in site.matrices()]
        original = [each.clone() for each in columns]
        for each in columns:
            each.zero_()
        try:
            return torch.allclose(closed, states(), rtol=1e-4, atol=1e-5)
        finally:
            for each, before in zip(columns, original, strict=True):
                each.copy_(before)


def _own_values(gates: HeadGates, site: Site) -> None:
    """Raise ModelError if a head's context vectors are computed from another head's values."""
    mixing = False

    def attend(
        attention: Attention,
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> Attended:
        nonlocal mixing
        with torch.enable_grad():
            own = value.detach().requires_grad_()  # (batch, key heads, tokens, size)
            context, weights = attention(query.detach(), key.detach(), own)
            heads, groups = context.shape[2], own.shape[1]
            for head in {0, heads - 1}:
                # nan in a gradient reaches everything that the head depends on, however slightly
                seed = torch.zeros_like(context)
                seed[:, :, head] = torch.nan  # of context, (batch, tokens, heads, size)
                (reached,) = torch.autograd.grad(context, own, seed, retain_graph=True)
                reached_groups = reached.isnan().flatten(2).any(2).any(0).nonzero().flatten().tolist()
                mixing |= reached_groups != [head * groups // heads]
        return context.detach(), weights

    with watched(site.attention, attend), torch.no_grad():
        gates.model(**gates.inputs)
    if mixing:
        raise ModelError(f"a head of '{site.name}' is computed from the values of another")


def _own_units(gates: HeadGates, site: Site) -> None:
    """Raise ModelError if the input of W_O for a token is not made by heads.

    Units are the outputs of linear layers inside the attention. One of these layers must have units of
    several tokens (keys or values, not the hidden units of a feed-forward layer), including some that only
    the first head uses and some that only the last one uses.
    """
    assert site.output is not None
    context = torch.empty(0)
    units: list[torch.Tensor] = []

    def apart(layer: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        first, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, ())
        units.append(first.detach().requires_grad_())
        own = units[-1].clone()  # the model may change units in place
        return (own, *rest) if rest else own

    def take(layer: nn.Module, args: tuple[Any, ...]) -> None:
        nonlocal context
        context = args[0]

    with ExitStack() as stack, torch.enable_grad():
        for layer in filter(is_linear, site.attention.modules()):
            if layer is not site.output:
                stack.callback(layer.register_forward_hook(apart).remove)
        stack.callback(site.output.register_forward_pre_hook(take).remove)
        gates.model(**gates.inputs)
    if not context.requires_grad:
        raise ModelError(f"'{site.name}' computes without gradients")
    used = []
    for head in (0, site.heads - 1):
        seed = torch.zeros_like(context)
        units_of_one = seed.flatten(1, -2)[0, min(TARGETS, context.shape[1]) - 1]
        units_of_one[head * site.size : (head + 1) * site.size] = torch.nan
        reached = torch.autograd.grad(
            context, units, seed, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        used.append([gradient.isnan().flatten(0, -2) for gradient in reached])  # (texts * tokens, units)
    if not any(
        first.any(1).sum() > 1 and (site.heads == 1 or ((first & ~last).any() and (last & ~first).any()))
        for first, last in zip(*used, strict=True)
    ):
        raise ModelError(f"what its W_O takes is not made by the heads of '{site.name}'")
