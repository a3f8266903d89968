"""Numbers of heads in attention modules and configs, found by observing reads and by trial."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel, logging

from headspec.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


#: most combinations of attributes that are tried
MOST_NUMBERS = 4096
CONFIG = "config"
#: whether an attribute is of a module's config, and its name
Place = tuple[bool, str]


@dataclass(frozen=True)
class Numbers:
    """Number of query heads and of key heads, and the length of a context vector."""

    heads: int
    keys: int
    size: int

    def all(self) -> tuple[int, ...]:
        """Return what an attribute may hold: heads, key heads, query heads per key head, and widths."""
        return self.heads, self.keys, self.heads // self.keys, self.heads * self.size, self.keys * self.size


def number_parts(attention: nn.Module) -> list[nn.Module]:
    """Return the modules of an attention that may count heads: all except its layers."""
    return [module for module in attention.modules() if getattr(module, "weight", None) is None]


@contextmanager
def noted_numbers(attentions: Iterable[nn.Module]) -> Iterator[dict[nn.Module, set[Place]]]:
    """Note which attributes of each module and its config are read in the block."""
    read: dict[nn.Module, set[Place]] = {module: set() for module in attentions}
    classes = {module: (type(module), module.__dict__.get(CONFIG)) for module in read}
    try:
        for module, (module_class, config) in classes.items():
            if config is not None:
                own = copy.copy(config)
                object.__setattr__(own, "__class__", _noting(type(config), True, read[module]))
                module.__dict__[CONFIG] = own
            module.__class__ = _noting(module_class, False, read[module])
        yield read
    finally:
        for module, (module_class, config) in classes.items():
            module.__class__ = module_class
            if config is not None:
                module.__dict__[CONFIG] = config


def _noting(module_class: type, in_config: bool, read: set[Place]) -> type:
    """Return a class like `module_class` whose objects note the attributes that are read."""
    usual: Any = module_class.__getattribute__

    def get(self: Any, name: str) -> Any:
        read.add((in_config, name))
        return usual(self, name)

    return type(module_class.__name__, (module_class,), {"__getattribute__": get})


def settle_numbers(
    changes: Mapping[nn.Module, tuple[Numbers, Numbers]],
    read: Mapping[nn.Module, set[Place]],
    same: Callable[[], bool],
) -> dict[nn.Module, dict[str, dict[str, int]]]:
    """Set the attributes of attention modules so that the model computes what it should.

    The value of an attribute tells what it may count, the same in all modules of a class. Where that is
    ambiguous, all combinations are tried, those with the fewest changes first. `changes` has each module's
    numbers before and after, `read` the attributes that its code reads. `same` checks the model, and raises
    if numbers do not fit. Returns what is set, as `put_numbers` takes it; raises ModelError if no
    combination fits.
    """
    counts: dict[tuple[type, Place], set[int]] = {}
    for module, (before, _) in changes.items():
        for place in read[module]:
            value = getattr(_holder(module, place), place[1], None)
            meanings = {i for i, n in enumerate(before.all()) if type(value) is int and value == n}
            counts[type(module), place] = counts.get((type(module), place), meanings) & meanings
    counts = {place: counts[place] for place in sorted(counts, key=str) if counts[place]}
    choices = itertools.product(*([None, *meanings] for meanings in counts.values()))
    for choice in sorted(
        itertools.islice(choices, MOST_NUMBERS), key=lambda choice: len(choice) - choice.count(None)
    ):
        chosen = {place: number for place, number in zip(counts, choice, strict=True) if number is not None}
        kept = [(module, dict(module.__dict__)) for module in changes]
        values = {module: _values(type(module), after, chosen) for module, (_, after) in changes.items()}
        for module, own in values.items():
            put_numbers(module, own)
        try:
            if same():
                return values
        except Exception:  # code whose numbers do not fit may raise anything
            pass
        for module, attributes in kept:
            module.__dict__.update(attributes)
    raise ModelError(
        "the others alone do not compute what they do beside closed gates, because heads depend on each "
        "other or the code of the model needs all of them"
    )


def _holder(module: nn.Module, place: Place) -> Any:
    return module.__dict__[CONFIG] if place[0] else module


def _values(
    module_class: type, after: Numbers, chosen: Mapping[tuple[type, Place], int]
) -> dict[str, dict[str, int]]:
    own = {place: after.all()[number] for (each, place), number in chosen.items() if each is module_class}
    parts = {"attributes": False, CONFIG: True}
    by_module = {
        key: {name: n for (inside, name), n in own.items() if inside == part} for key, part in parts.items()
    }
    return {key: values for key, values in by_module.items() if values}


def put_numbers(module: Any, values: Mapping[str, Any]) -> None:
    """Set `attributes` of a module, and of its `config`, which other modules share."""
    for name, value in values.get("attributes", {}).items():
        setattr(module, name, value)
    if CONFIG in values:
        module.config = copy.copy(module.config)
        for name, value in values[CONFIG].items():
            setattr(module.config, name, value)


#: entries that may count heads
COUNTS = re.compile(r"head|kv")
#: the length of a context vector, which many types read although their configs leave it out
SIZE = "head_dim"
#: entries by layer, read by few types
BY_LAYER = "per_layer_config"
#: most configs that are tried
MOST_CONFIGS = 32
#: numbers that an entry may be (`Numbers.all`)
KINDS = len(Numbers(1, 1, 1).all())
#: an entry: names of the config inside others, and its own
Path = tuple[str, ...]


def set_config_numbers(
    model: PreTrainedModel,
    attentions: Iterable[nn.Module],
    rows: Mapping[int, tuple[Numbers, Numbers]],
    same: Callable[[PreTrainedModel], bool],
) -> bool:
    """Let the config of a model without some heads say so, by its own numbers; return whether it can.

    Parameters
    ----------
    model : without some heads; its config has the numbers of before
    attentions : those of the rows; numbers of other towers, which `same` may not run, stay as they are
    rows : of each row that has heads, its numbers before and after
    same : whether a model computes what it should
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
            logging.set_verbosity(logging.CRITICAL)  # configs say what they cannot be
            made = _made(model, type(model.config).from_dict(new))
            if _outside(made, towers) != _outside(model, towers) or not same(made):
                continue
        except Exception:  # of whatever code the model has
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
    """Return the names of the models within a model that attentions are in, with all modules on the way."""
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
    """Yield entries of configs of `types` that may be right, those with the most changes first."""
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
    """Return the entries of a config for numbers of rows, given its own by layer; empty if none can be."""
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
    """Return whether an entry is the outermost config's own, or of a config inside it of one of `types`."""
    inside = [_inside(config, path[: depth + 1]) for depth in range(1, len(path))]
    named = [each["model_type"] for each in inside if "model_type" in each]
    return not named or named[-1] in types


def _inside(config: dict[str, Any], path: Path) -> dict[str, Any]:
    for name in path[:-1]:
        config = config[name]
    return config


def _outside(model: PreTrainedModel, towers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers, and the configs, of all modules outside of towers."""
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
    """Return a model of a config with the weights of another; raise if they do not fit."""
    config._attn_implementation = model.config._attn_implementation
    with torch.device("meta"):
        made = type(model)(config)
    made.load_state_dict(model.state_dict(), assign=True)
    for name, buffer in model.named_buffers():  # also those that are not in the state
        owner, _, own = name.rpartition(".")
        if made.get_buffer(name).shape != buffer.shape:
            raise ValueError(f"{name} has another size")  # as of rotations, by the length of keys
        setattr(made.get_submodule(owner), own, buffer)
    return made
