"""Functions of transformers 4 for pruning heads, which transformers 5 does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from headspec import head_arrays
from headspec.models.export import structure
from headspec.models.export.slicing import remove_heads
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def prune_heads(model: PreTrainedModel, heads_to_prune: Mapping[int, list[int]]) -> None:
    """Remove heads of a model in place, as ``model.prune_heads`` did.

    Heads keep the numbers that they had before any were removed; those already removed are skipped. Pruned
    layers get new parameters: create optimizers afterwards.

    Parameters
    ----------
    model : any model that `headspec.remove_heads` takes
    heads_to_prune : {layer: [heads]}

    Raises
    ------
    ModelError, ValueError
        As `headspec.remove_heads`; a head that was removed before is no error.

    Examples
    --------
    >>> headspec.compat.prune_heads(model, {0: [1], 2: [2, 3]})
    """
    gates, entry = HeadGates(model), structure.of(model.config)
    before, kept = entry.get("heads", {}), entry.get("kept_heads", {})
    first = {site.name: [*range(site.heads)] for site in gates.sites} | kept
    width = max([*before.values(), *(own[-1] + 1 for own in first.values() if own)])
    # a row without heads may have lost them all
    existed = np.full((gates.layers, width), not all(kept.values()))
    for site in gates.sites:
        unknown = width if site.name in kept else site.heads  # in files of headspec 1.0
        existed[site.rows] = np.arange(width) < before.get(site.name, unknown)
    chosen, now = head_arrays.mask(heads_to_prune, existed), np.zeros_like(gates.exists)
    for site in gates.sites:
        now[site.rows, : site.heads] = chosen[site.rows][:, first[site.name]]
    _become(model, remove_heads(model, now))


def _become(old: nn.Module, new: nn.Module) -> nn.Module:
    """Give a module, and those inside it, the parameters and attributes of another one."""
    for name, child in new._modules.items():
        own = old._modules.get(name)
        if own is not child and own is not None and child is not None and type(own) is type(child):
            new._modules[name] = _become(own, child)
    vars(old).update(vars(new))
    return old


def find_pruneable_heads_and_indices(
    heads: Iterable[int], n_heads: int, head_size: int, already_pruned_heads: Iterable[int]
) -> tuple[set[int], torch.Tensor]:
    """Return which heads are not pruned yet, and the rows of a projection that are left without them.

    Modelling code of transformers 4 imports it from ``transformers.pytorch_utils``.

    Parameters
    ----------
    heads, already_pruned_heads : numbers of heads, as before any were pruned
    n_heads, head_size : number of heads before this pruning, and the length of a context vector

    Returns
    -------
    heads, rows : numbers of the heads to prune, as given, and indices of rows, (rows,)
    """
    pruned = {*already_pruned_heads}
    new = {*heads} - pruned
    now = [head - sum(other < head for other in pruned) for head in new]
    left = torch.ones(n_heads, head_size, dtype=torch.bool)
    left[now] = False
    return new, left.flatten().nonzero().flatten()
