"""Checks, at loading, that gates act on the heads of a model.

The first and the last attention of each kind are checked, in as few passes as can tell them apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.interface import (
    Attended,
    Attention,
    unfused,
    watched,
)
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import TARGETS
from headspec.models.attention.projections import is_linear
from headspec.models.attention.sites import Site

if TYPE_CHECKING:
    from headspec.models.gates import HeadGates

#: takes gates, (layers, heads), and returns what the model computes with them
States = Callable[[torch.Tensor], torch.Tensor]


def check(gates: HeadGates, output: Any) -> None:
    """Raise ModelError if gates do not act on heads.

    Gates of 1 must change no bit; a closed head must change the output; its context vectors must come from
    its own values alone or, where these are unknown, from units that another head does not use. Gates must
    also act without fused attention. Where heads are gated before W_O, closing gates must equal zeroing the
    heads' columns of W_O; where it differs at the interface, all sites there lose their W_O. Columns are
    compared only where W_O has plain floats (`Site.seen`).

    Parameters
    ----------
    output : the model's eager output for the inputs of `gates`, without gates
    """

    @torch.no_grad()
    def states(values: torch.Tensor) -> torch.Tensor:
        gates.values = values
        try:
            return first(gates.model(**gates.inputs))
        finally:
            gates.values = None

    seen: set[int] = set()  # rows without fused attention

    def unfused_states(values: torch.Tensor) -> torch.Tensor:
        with unfused(gates.model), gates.recorded() as contexts:
            found = states(values)
        seen.update(contexts)
        return found

    plain, sites = first(output), _first_and_last(gates)
    ones = torch.ones(gates.layers, gates.heads, device=device_of(gates.model))
    with _own_values(sites):
        if not torch.equal(states(ones), plain):
            raise ModelError("gates of 1 change its output")
    _require_own_units(gates, sites)
    _act(gates, sites, states, unfused_states, plain, ones)
    if not seen:
        unfused_states(ones)
    if missing := [site.name for site in gates.sites if not seen.issuperset(site.rows)]:
        raise ModelError(f"without fused attention, gates of '{missing[0]}' do not act")


def _first_and_last(gates: HeadGates) -> list[Site]:
    """Return the first and the last site of each kind of attention."""
    by_kind = [[site for site in gates.sites if site.kind == kind] for kind in gates.first_rows]
    return [site for here in by_kind for site in here[:1] + here[1:][-1:]]


def _act(
    gates: HeadGates,
    sites: list[Site],
    states: States,
    unfused_states: States,
    plain: torch.Tensor,
    ones: torch.Tensor,
) -> None:
    """Close the last head of each site in turn, and check that each acts as `check` says."""
    groups = (
        [site for site in sites if site.seen and not site.own],
        [site for site in sites if site.seen and site.own],
        [site for site in sites if not site.seen],
    )
    closed, values = plain, ones
    for group in filter(None, groups):
        before, values = values, values.clone()
        for site in group:
            values[site.rows, site.heads - 1] = 0
            others, closed = closed, states(values)
            if torch.equal(closed, others):
                raise ModelError(f"closing head {site.heads - 1} of '{site.name}' changes nothing")
        if group is groups[2]:
            continue
        # most models compute the same without fused attention, which this checks in the same pass
        if _zeroed(group, closed, unfused_states, before) or _zeroed(group, closed, states, before):
            continue
        if group is groups[1]:
            names = " and ".join(f"'{site.name}'" for site in group)
            raise ModelError(f"closing the last head of {names} differs from zeroing its weights")
        for other in gates.sites:
            other.output = other.output if other.own else None


def first(output: Any) -> torch.Tensor:
    """Return the logits of an output, else its first tensor."""
    logits = getattr(output, "logits", None)
    return logits if isinstance(logits, torch.Tensor) else output[0]


def _zeroed(sites: list[Site], closed: torch.Tensor, states: States, values: torch.Tensor) -> bool:
    """Return whether `closed`, states without last heads, equals those of `values` with columns zeroed."""
    with torch.no_grad():
        columns = [site.columns(layer)[-1] for site in sites for layer in site.matrices()]
        original = [each.clone() for each in columns]
        for each in columns:
            each.zero_()
        try:
            return torch.allclose(closed, states(values), rtol=1e-4, atol=1e-5)
        finally:
            for each, before in zip(columns, original, strict=True):
                each.copy_(before)


@contextmanager
def _own_values(sites: list[Site]) -> Iterator[None]:
    """Raise ModelError if, in the block's pass, a head is computed from the values of another."""
    mixing: list[Site] = []

    def attend(site: Site, attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        if not _are_own(attention, *states):
            mixing.append(site)
        return attention(*states)

    with ExitStack() as stack:
        for site in sites:
            if not site.own:
                watcher = functools.partial(attend, site)
                stack.enter_context(watched(site.attention, watcher, inside=True))  # calls it twice
        yield
    if mixing:
        raise ModelError(f"a head of '{mixing[0].name}' is computed from the values of another")


def _are_own(attention: Attention, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether the context vectors of the first and last head are computed from their own values.

    Values that are nan reach everything that depends on them, however slightly, also in kernels without a
    backward pass.
    """
    several = value.shape[1] > 1  # of value, (batch, key heads, tokens, size)
    for own, other in ((0, -1), (-1, 0)):
        values = torch.full_like(value, torch.nan)
        if several:
            values[:, own] = value[:, own]
        context, _ = attention(query, key, values)  # (batch, tokens, heads, size)
        reached = context.isnan().any(3).flatten(0, 1).any(0)  # (heads,)
        if reached[own] == several or not reached[other]:
            return False
    return True


@torch.enable_grad()
def _require_own_units(gates: HeadGates, sites: list[Site]) -> None:
    """Raise ModelError if, in one pass, heads do not compute the input of the W_O of their site."""
    computing = [_OwnUnits(site) for site in sites if site.own]
    if not computing:
        return
    with ExitStack() as stack:
        for each in computing:
            each.watch(stack)
        gates.model(**gates.inputs)
    for each in computing:
        each.require()


class _OwnUnits:
    """Check that heads compute the input of a site's W_O.

    Units are the outputs of linear layers inside the attention. One of these layers must have units that are
    used across tokens (keys or values, not the hidden units of a feed-forward layer). The first head must use
    some of them that the last does not use, and vice versa.
    """

    def __init__(self, site: Site) -> None:
        self.site, self.context = site, torch.empty(0)
        self.units: list[torch.Tensor] = []

    def watch(self, stack: ExitStack) -> None:
        assert self.site.output is not None
        for layer in filter(is_linear, self.site.attention.modules()):
            if layer is not self.site.output:
                stack.callback(layer.register_forward_hook(self._detach_units).remove)
        stack.callback(self.site.output.register_forward_pre_hook(self._take).remove)

    def _detach_units(self, layer: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        first, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, ())
        self.units.append(first.detach().requires_grad_())
        own = self.units[-1].clone()  # the model may change units in place
        return (own, *rest) if rest else own

    def _take(self, layer: nn.Module, args: tuple[Any, ...]) -> None:
        self.context = args[0]

    def require(self) -> None:
        """Raise ModelError if they do not, or compute it without gradients."""
        site, context = self.site, self.context
        if not context.requires_grad:
            raise ModelError(f"'{site.name}' computes without gradients")
        used = []
        for head in (0, site.heads - 1):
            seed = torch.zeros_like(context)
            units_of_one = seed.flatten(1, -2)[0, min(TARGETS, context.shape[1]) - 1]
            units_of_one[head * site.size : (head + 1) * site.size] = torch.nan
            reached = torch.autograd.grad(
                context, self.units, seed, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            used.append([gradient.isnan().flatten(0, -2) for gradient in reached])  # (texts * tokens, units)
        if not any(
            first.any(1).sum() > 1 and (site.heads == 1 or ((first & ~last).any() and (last & ~first).any()))
            for first, last in zip(*used, strict=True)
        ):
            raise ModelError(f"the input of its W_O is not computed by the heads of '{site.name}'")
