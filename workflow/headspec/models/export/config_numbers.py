"""Head counts in the config of a model without some heads, found by trial."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel, logging

from headspec.models.export.head_numbers import CONFIG, Numbers

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

#: entries that may count heads
COUNTS = re.compile(r"head|kv")
#: the length of a context vector, which many types read although their configs leave it out
SIZE = "head_dim"
#: entry with settings by layer, which few types read
BY_LAYER = "per_layer_config"
#: maximum number of configs to try
MOST_CONFIGS = 32
#: number of quantities that an entry may stand for (`Numbers.all`)
KINDS = len(Numbers(1, 1, 1).all())
#: path of an entry: names of the nested configs, and its own name
Path = tuple[str, ...]


def set_config_numbers(
    model: PreTrainedModel,
    attentions: Iterable[nn.Module],
    rows: Mapping[int, tuple[Numbers, Numbers]],
    same: Callable[[PreTrainedModel], bool],
) -> bool:
    """Update the head counts in the config of a model without some heads, if possible; return whether it was.

    Parameters
    ----------
    model : without some heads; its config has the old numbers
    attentions : those of the rows; numbers of other towers, which `same` may not run, stay the same
    rows : numbers before and after of each row that has heads
    same : checks that a model computes what it should
    """
    old, towers = model.config.to_dict(), _towers(model, attentions)
    configs: list[Any] = [getattr(part, CONFIG, None) for parts in towers.values() for part in parts]
    types = {config.model_type for config in configs if hasattr(config, "model_type")}
    for entries in itertools.islice(_entries(old, rows, types), MOST_CONFIGS):
        new = copy.deepcopy(old)
        for path, value in entries.items():
            _inside(new, path)[path[-1]] = value
        before = logging.get_verbosity()
        try:
            logging.set_verbosity(logging.CRITICAL)  # configs complain about values that do not fit
            made = _made(model, type(model.config).from_dict(new))
            if _outside(made, towers) != _outside(model, towers) or not same(made):
                continue
        except Exception:  # the model's code may raise anything
            continue
        finally:
            logging.set_verbosity(before)
        for path, value in entries.items():
            config = model.config
            for name in path[:-1]:
                config = getattr(config, name)
            setattr(config, path[-1], value)
        return True
    return False


def _towers(model: PreTrainedModel, attentions: Iterable[nn.Module]) -> dict[str, list[Any]]:
    """Return the innermost models that contain the attentions, name: the modules on the paths to them."""
    modules = dict(model.named_modules())
    names = {module: name for name, module in modules.items()}
    towers: dict[str, list[Any]] = {}
    for attention in attentions:
        name, way = names[attention], [attention]
        while not isinstance(way[-1], PreTrainedModel):
            name = name.rpartition(".")[0]
            way.append(modules[name])
        towers.setdefault(name, []).extend(way)
    return towers


def _entries(
    old: dict[str, Any], rows: Mapping[int, tuple[Numbers, Numbers]], types: Container[str]
) -> Iterator[dict[Path, Any]]:
    """Yield candidate entries for configs of `types`, those with the most changes first."""
    layers = {int(layer): own for layer, own in old.get(BY_LAYER, {}).items()}
    meanings: dict[Path, list[int | None]] = {}
    for path, value in _numbers(old):
        if not _is_of(old, path, types):
            continue
        own = {row: layers.get(row, {}).get(path[-1], value) for row in rows}
        fitting = [i for i in range(KINDS) if all(rows[row][0].all()[i] == n for row, n in own.items())]
        if fitting and COUNTS.search(path[-1]):
            meanings[path] = [*fitting, None]
    sizes = {after.size for _, after in rows.values()}
    for chosen in sorted(itertools.product(*meanings.values()), key=lambda each: each.count(None)):
        counted = {path: i for path, i in zip(meanings, chosen, strict=True) if i is not None}
        entries = _said(
            layers,
            {path: {row: after.all()[i] for row, (_, after) in rows.items()} for path, i in counted.items()},
        )
        if not entries:
            continue
        if len(sizes) == 1:
            yield entries | {(*path[:-1], SIZE): size for path in counted for size in sizes}
        yield entries


def _said(
    layers: Mapping[int, Mapping[str, Any]], numbers: Mapping[Path, Mapping[int, int]]
) -> dict[Path, Any]:
    """Return config entries for numbers of rows, given the settings by layer; empty if none can hold them."""
    entries: dict[Path, Any] = {}
    by_layer = {layer: dict(own) for layer, own in layers.items()}
    for path, own in numbers.items():
        name = path[-1]
        if len({*own.values()}) == 1:
            entries[path] = next(iter(own.values()))
            for each in by_layer.values():
                each.pop(name, None)
        elif len(path) == 1:
            for row, number in own.items():
                by_layer.setdefault(row, {})[name] = number
        else:
            return {}
    return entries | ({(BY_LAYER,): by_layer} if by_layer != layers else {})


def _numbers(config: dict[str, Any], inside: Path = ()) -> Iterator[tuple[Path, int]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value, (*inside, name))
        elif type(value) is int:
            yield (*inside, name), value


def _is_of(config: dict[str, Any], path: Path, types: Container[str]) -> bool:
    """Return whether an entry is in the outermost config, or in a nested config of one of `types`."""
    inside = [_inside(config, path[: depth + 1]) for depth in range(1, len(path))]
    named = [each["model_type"] for each in inside if "model_type" in each]
    return not named or named[-1] in types


def _inside(config: dict[str, Any], path: Path) -> dict[str, Any]:
    for name in path[:-1]:
        config = config[name]
    return config


def _outside(model: PreTrainedModel, towers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers and configs of all modules outside of towers."""
    numbers: dict[str, Any] = {}
    inside: dict[str, bool] = {}
    for name, module in model.named_modules():
        around = inside.get(name.rpartition(".")[0], False)
        inside[name] = name in towers or (around and not isinstance(module, PreTrainedModel))
        if not inside[name]:
            numbers[name] = {key: value for key, value in module.__dict__.items() if type(value) is int}
            holds = not name or any(tower.startswith(f"{name}.") for tower in towers)
            if CONFIG in module.__dict__ and not holds:
                numbers[name][CONFIG] = dict(_numbers(module.config.to_dict()))
    return numbers


def _made(model: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    """Return a model of a config with the weights of `model`; raise if they do not fit."""
    config._attn_implementation = model.config._attn_implementation
    with torch.device("meta"):
        made = type(model)(config)
    made.load_state_dict(model.state_dict(), assign=True)
    for name, buffer in model.named_buffers():  # including those that are not in the state dict
        owner, _, own = name.rpartition(".")
        if made.get_buffer(name).shape != buffer.shape:
            raise ValueError(f"{name} has another size")  # such as rotary frequencies, by the length of keys
        setattr(made.get_submodule(owner), own, buffer)
    return made
