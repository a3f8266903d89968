"""Cache of heads that were found: they are in the same places in every model of the same structure.

Entries hold no weights or modules. An entry serves models with the same class, config, modules, code and
shapes of weights, and inputs of the same names and shapes. Adapters, removed heads, another attention
function or replaced code therefore need another entry; models with hooks or methods of their own are searched
each time.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headspec.models.attention.sites import Site

#: maximum number of cached structures
MOST = 64


class Heads(NamedTuple):
    """The result of `sites.find`, checked."""

    sites: list[Site]
    first_rows: dict[str, int]
    rows: int


#: structure: heads without modules, and the name of each site's W_O, or None
_known: OrderedDict[Hashable, tuple[Heads, list[str | None]]] = OrderedDict()


def structure(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Hashable | None:
    """Return everything that the places of heads depend on; None if some of it cannot be seen."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # slow to import

    modules = dict(model.named_modules())
    if any(_is_own(module) for module in modules.values()):
        return None
    kinds = {type(module): None for module in modules.values()}
    files = {
        module_class.__module__: None
        for module_class in kinds
        if not module_class.__module__.startswith("torch.")
    }
    return (
        tuple((name, type(module), tuple(_settings(module))) for name, module in modules.items()),
        tuple(
            each
            for module_class in kinds
            for each in vars(module_class).values()
            if isinstance(each, FunctionType)
        ),
        tuple(each for file in files for each in _code(file)),
        tuple(ALL_ATTENTION_FUNCTIONS.items()),
        repr(model.config.to_dict()),
        tuple((name, _form(value)) for name, value in (*model.named_parameters(), *model.named_buffers())),
        tuple((name, _form(value)) for name, value in inputs.items()),
    )


def _is_own(module: nn.Module) -> bool:
    """Return whether a module has hooks, or overrides a function of its class."""
    own = vars(module)
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"]) or any(
        isinstance(getattr(type(module), name, None), FunctionType) for name in own
    )


def _settings(module: nn.Module) -> Iterator[tuple[str, Hashable]]:
    for name, value in vars(module).items():
        if name != "training" and isinstance(value, (bool, int, float, str)):
            yield name, value
    yield "attention", getattr(getattr(module, "config", None), "_attn_implementation", None)


def _code(file: str) -> Iterator[Any]:
    """Yield the functions and classes of a Python module."""
    for value in vars(sys.modules[file]).values() if file in sys.modules else ():
        if isinstance(value, (FunctionType, type)):
            yield value


def _form(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.device.type
    return repr(value)


def get(model: PreTrainedModel, key: Hashable | None) -> Heads | None:
    """Return the cached heads of a model with this structure; None if there are none.

    The cache is ignored if the last head's output weights of any site are all zero.
    """
    if key is None or key not in _known:
        return None
    _known.move_to_end(key)
    (sites, first_rows, rows), outputs = _known[key]
    matching = [
        dataclasses.replace(
            site,
            attention=model.get_submodule(site.name),
            output=None if output is None else model.get_submodule(output),
            rows=[*site.rows],
        )
        for site, output in zip(sites, outputs, strict=True)
    ]
    if any(site.seen and not site.columns()[-1].any() for site in matching):
        return None
    return Heads(matching, dict(first_rows), rows)


def keep(model: PreTrainedModel, key: Hashable | None, heads: Heads) -> None:
    """Cache the places of heads that were found and checked."""
    if key is None:
        return
    names: dict[Any, str] = {module: name for name, module in model.named_modules()}
    empty: Any = None
    bare = [
        dataclasses.replace(site, attention=empty, output=None, rows=[*site.rows]) for site in heads.sites
    ]
    outputs = [None if site.output is None else names[site.output] for site in heads.sites]
    _known[key] = Heads(bare, dict(heads.first_rows), heads.rows), outputs
    while len(_known) > MOST:
        _known.popitem(last=False)
