"""Head counts of attention modules, found by observing which attributes are read, and by trial."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from headspec.errors import ModelError

#: maximum number of combinations of attributes to try
MOST_NUMBERS = 4096
CONFIG = "config"
#: whether an attribute belongs to the module's config, and its name
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
    """Return the modules of an attention that may count heads: those without a weight."""
    return [module for module in attention.modules() if getattr(module, "weight", None) is None]


@contextmanager
def noted_numbers(attentions: Iterable[nn.Module]) -> Iterator[dict[nn.Module, set[Place]]]:
    """Collect the attributes of each module and its config that are read in the block."""
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
    """Return a subclass of `module_class` whose objects record which attributes are read."""
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

    The value of an attribute tells what it may count, which is the same in all modules of a class. Where that
    is ambiguous, up to `MOST_NUMBERS` combinations are tried, those with the fewest changes first.
    `changes` has each module's numbers before and after, `read` the attributes that its code reads. `same`
    checks the model, and may raise if numbers do not fit. Returns the settings in the form of `put_numbers`;
    raises ModelError if no combination fits.
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
        except Exception:  # code with numbers that do not fit may raise anything
            pass
        for module, attributes in kept:
            module.__dict__.update(attributes)
    raise ModelError(
        "the remaining heads do not reproduce the model with closed gates, because heads depend on each "
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
    """Set `attributes` of a module, and those of a copy of its `config`, which other modules share."""
    for name, value in values.get("attributes", {}).items():
        setattr(module, name, value)
    if CONFIG in values:
        module.config = copy.copy(module.config)
        for name, value in values[CONFIG].items():
            setattr(module.config, name, value)
