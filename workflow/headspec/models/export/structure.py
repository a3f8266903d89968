"""How a pruned model differs from its config, written as an entry of that config."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from headspec.models.attention.projections import Constant, Grouped, Zeros
from headspec.models.attention.sites import Site
from headspec.models.export import head_numbers

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def noted_biases(sites: Iterable[Site]) -> Iterator[dict[nn.Module, set[str]]]:
    """Collect, in the block, the arguments of each attention module that have a part for each head."""
    arguments: dict[nn.Module, set[str]] = {}

    def note(heads: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        (_, states), *others = inspect.signature(module.forward).bind(*args, **kwargs).arguments.items()
        arguments[module] |= {name for name, value in others if _by_head(value, heads, states)}

    with ExitStack() as stack:
        for site in sites:
            arguments[site.attention] = set()
            hook = functools.partial(note, site.heads)
            handle = site.attention.register_forward_pre_hook(hook, with_kwargs=True)
            stack.callback(handle.remove)
        yield arguments


def _by_head(value: Any, heads: int, states: torch.Tensor) -> bool:
    """Return whether an argument is (batch, heads, tokens, tokens) or ([batch *] heads, tokens, tokens)."""
    if not isinstance(value, torch.Tensor) or heads == 1:
        return False
    if value.dim() == 4:
        return value.shape[1] == heads
    sizes = (heads, heads * len(states))
    return value.dim() == 3 and value.shape[0] in sizes and value.shape != states.shape  # as of a residual


def select_biases(attention: nn.Module, arguments: set[str], heads: int, kept: np.ndarray) -> None:
    """Slice `arguments` to the `kept` of `heads` heads in each call; `kept` is bool (heads,)."""
    if arguments:
        hook = functools.partial(_selected, arguments, heads, kept.tolist())
        attention.register_forward_pre_hook(hook, with_kwargs=True)


def _selected(
    arguments: set[str],
    heads: int,
    kept: list[int],
    attention: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    call = inspect.signature(attention.forward).bind(*args, **kwargs)
    for name in arguments & call.arguments.keys():
        value = call.arguments[name]
        if isinstance(value, torch.Tensor):
            whole = value if value.dim() == 4 else value.unflatten(0, (-1, heads))
            call.arguments[name] = whole[:, kept] if value.dim() == 4 else whole[:, kept].flatten(0, 1)
    return call.args, call.kwargs


#: the key in config.json
KEY = "headspec"
#: changes of a module, all optional: `shapes` of its parameters; values of its `attributes` and of its
#: `config`, which then becomes its own; `key_heads` of its query heads (`Grouped`); `constant` or `zeros`,
#: the width of its output (`Constant`, `Zeros`); and `biases`, arguments that it takes only parts of: (names,
#: number of heads, heads)
Change = dict[str, Any]


def of(config: Any) -> dict[str, Any]:
    """Return the entry of a config on removed heads; empty if it has none.

    ``kept_heads`` are the remaining heads of each attention, numbered as in the original model, ``heads``
    their number in that model (files of headspec 1.0 lack it); ``modules`` maps names of modules to a
    `Change`, ``tied`` names of parameters to those that they are tied to.
    """
    return getattr(config, KEY, None) or {}


def apply(model: nn.Module, modules: Mapping[str, Change]) -> None:
    """Change modules of a model; parameters with a new shape are left uninitialised."""
    for name, change in modules.items():
        module: Any = model.get_submodule(name)
        inner = module.projection if isinstance(module, Grouped) else module
        for parameter, shape in change.get("shapes", {}).items():
            old = getattr(inner, parameter)
            setattr(inner, parameter, nn.Parameter(old.new_empty(shape), old.requires_grad))
        resize(inner)
        if "constant" in change:
            model.set_submodule(name, Constant(inner, change["constant"]))
        elif "zeros" in change:
            model.set_submodule(name, Zeros(inner, change["zeros"]))
        elif "key_heads" in change:
            model.set_submodule(name, Grouped(inner, change["key_heads"]))
        head_numbers.put_numbers(module, change)
        for names, heads, kept in change.get("biases", []):
            select_biases(module, set(names), heads, np.array(kept))


def resize(layer: nn.Module) -> None:
    """Update the sizes that a linear layer stores."""
    if isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, Conv1D):
        layer.nx, layer.nf = layer.weight.shape


def tie(model: PreTrainedModel, tied: Mapping[str, str]) -> None:
    """Tie parameters to others, also when transformers saves and loads them."""
    for name, source in tied.items():
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, model.get_parameter(source))
    if tied:  # the first is for loading, the second for saving
        model.all_tied_weights_keys = {**model.all_tied_weights_keys, **tied}
        model._tied_weights_keys = {**(model._tied_weights_keys or {}), **tied}


def shared(model: PreTrainedModel) -> dict[str, str]:
    """Return tied parameters that transformers does not know of, name: first name."""
    first: dict[int, str] = {}
    pairs = [
        (name, first.setdefault(id(p), name)) for name, p in model.named_parameters(remove_duplicate=False)
    ]
    return {
        name: source for name, source in pairs if name != source and name not in model.all_tied_weights_keys
    }


def renamed(settings: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Return the result of `of` with names as in `model`, which may be the base of the model it describes."""
    prefix, names = f"{model.base_model_prefix}.", {name for name, _ in model.named_modules()}

    def own(name: str) -> str:
        short = name.removeprefix(prefix)
        return short if name not in names and short.rpartition(".")[0] in {"", *names} else name

    pairs = {key: {own(name): value for name, value in settings[key].items()} for key in settings}
    return pairs | {"tied": {name: own(source) for name, source in pairs["tied"].items()}}


def note(
    model: PreTrainedModel,
    kept: Mapping[str, list[int]],
    heads: Mapping[str, int],
    modules: Mapping[str, Change],
    tied: Mapping[str, str],
) -> None:
    """Write changes into the config of a model, which may already have some.

    `kept` maps names of attention modules to the remaining heads, numbered as before these changes, and
    `heads` to their number before.
    """
    before = of(model.config)
    merged, left = dict(before.get("modules", {})), dict(before.get("kept_heads", {}))
    for name, change in modules.items():
        merge(merged, name, change)
    for name, own in kept.items():
        left[name] = [left[name][i] for i in own] if name in left else own
    new = {name: n for name, n in heads.items() if name not in before.get("kept_heads", {})}
    content = {
        "kept_heads": left, "heads": new | before.get("heads", {}), "modules": merged,
        "tied": {**before.get("tied", {}), **tied},
    }  # fmt: skip
    setattr(model.config, KEY, content)


def merge(modules: dict[str, Change], name: str, change: Change) -> None:
    """Merge a change of a module into its earlier changes, in `modules`."""
    if not change:
        return
    own = modules[name] = dict(modules.get(name, {}))
    for key, value in change.items():
        if isinstance(value, dict):
            own[key] = own.get(key, {}) | value
        else:
            own[key] = own.get(key, []) + value if key == "biases" else value
    if own.keys() & {"constant", "zeros"}:  # whatever its parameters were
        own.pop("shapes", None)
        own.pop("key_heads", None)
