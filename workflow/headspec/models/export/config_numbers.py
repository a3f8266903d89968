"""Configs whose own numbers say which heads are left."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from transformers import logging

from headspec.models.export.head_numbers import Numbers

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

#: entries that may count heads
COUNTS = re.compile(r"head|kv")
#: the length of a context vector, which many types read although their configs leave it out
SIZE = "head_dim"
#: entries by layer, read by few types
BY_LAYER = "per_layer_config"
#: most configs that are tried
MOST = 32
#: numbers that an entry may be (`Numbers.all`)
KINDS = len(Numbers(1, 1, 1).all())
#: an entry: names of the config inside others, and its own
Path = tuple[str, ...]


def set_if_possible(
    model: PreTrainedModel,
    rows: Mapping[int, tuple[Numbers, Numbers]],
    same: Callable[[PreTrainedModel], bool],
) -> bool:
    """Let the config of a model without some heads say so, by its own numbers; return whether it can.

    Parameters
    ----------
    model : without some heads; its config has the numbers of before
    rows : of each row that has heads, its numbers before and after
    same : whether a model computes what it should
    """
    old = model.config.to_dict()
    for entries in itertools.islice(_entries(old, rows), MOST):
        new = copy.deepcopy(old)
        for path, value in entries.items():
            _inside(new, path)[path[-1]] = value
        before = logging.get_verbosity()
        try:
            logging.set_verbosity(logging.CRITICAL)  # configs say what they cannot be
            if not same(_made(model, type(model.config).from_dict(new))):
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


def _entries(old: dict[str, Any], rows: Mapping[int, tuple[Numbers, Numbers]]) -> Iterator[dict[Path, Any]]:
    """Yield entries that may be right, those with the most changes first."""
    layers = {int(layer): own for layer, own in old.get(BY_LAYER, {}).items()}
    meanings: dict[Path, list[int | None]] = {}
    for path, value in _numbers(old):
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


def _inside(config: dict[str, Any], path: Path) -> dict[str, Any]:
    for name in path[:-1]:
        config = config[name]
    return config


def _made(model: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    """Return a model of a config with the weights of another; raise if they do not fit."""
    config._attn_implementation = model.config._attn_implementation
    with torch.device("meta"):
        made = type(model)(config)
    made.load_state_dict(model.state_dict(), assign=True)
    for name, buffer in model.named_buffers():  # also those that are not in the state
        owner, _, own = name.rpartition(".")
        setattr(made.get_submodule(owner), own, buffer)
    return made
