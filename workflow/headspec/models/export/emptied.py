"""Layers that lost all their heads, and with them the projections to queries, keys and values.

The code around them still runs, on zeros: caches of decoders count tokens by the keys of any layer, and
models return the attention weights of every layer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.models.attention.head_parameters import Slice
from headspec.models.attention.projections import is_linear
from headspec.models.attention.sites import Site
from headspec.models.export import structure
from headspec.models.export.structure import Change

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def projections(site: Site, slices: Iterable[Slice]) -> Iterator[nn.Module]:
    """Yield the outermost linear layers that compute the heads of a site."""
    own = {id(part.parameter) for part in slices if part.heads[site.rows].any()}
    assert site.output is not None
    passed = {*site.output.modules()}
    for layer in filter(is_linear, site.attention.modules()):
        if layer not in passed and any(id(parameter) in own for parameter in layer.parameters()):
            passed.update(layer.modules())
            yield layer


def zeroed(
    model: PreTrainedModel, unused: Iterable[str], run: Callable[[], object], same: Callable[[], bool]
) -> dict[str, Change]:
    """Replace the projections named `unused`, which no head uses, by zeros; return these changes.

    If the model then computes something else, the projections stay, and there are no changes.

    Parameters
    ----------
    run : runs the model, to find the width of each projection
    same : checks that the model computes what it should; may raise
    """
    layers = {name: model.get_submodule(name) for name in unused}
    changes: dict[str, Change] = {}

    def note(name: str, layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, torch.Tensor):
            changes[name] = {"zeros": output.shape[-1]}

    if not layers:
        return {}
    with ExitStack() as stack:
        for name, layer in layers.items():
            stack.callback(layer.register_forward_hook(functools.partial(note, name)).remove)
        run()
    structure.apply(model, changes)
    try:
        if same():
            return changes
    except Exception:  # the model's code may raise anything
        pass
    for name in changes:
        model.set_submodule(name, layers[name])
    return {}
