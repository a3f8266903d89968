"""Entries of headspec and of plugins, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from headspec.errors import ConfigError, listing, nearest


class Labelled(Protocol):
    """An entry whose `label` names it in figures."""

    @property
    def label(self) -> str:
        """The name in figures."""


T = TypeVar("T")
L = TypeVar("L", bound=Labelled)


def unknown(what: str, name: object, valid: Iterable[object]) -> ConfigError:
    """Return the error for an invalid name of an entry, such as a metric, which the message calls `what`."""
    names = list(valid)
    return ConfigError(f"no {what} '{name}'; expected one of {listing(names)}.{nearest(name, names)}")


def require(what: str, name: object, valid: Iterable[object]) -> None:
    """Raise ConfigError if `name` is not in `valid`."""
    if name not in (names := list(valid)):
        raise unknown(what, name, names)


class Registry(dict[str, T]):
    """Entries by name, in order. An unknown name raises ConfigError, whose message calls it `what`.

    All entries are arguments: a statement that added some would be code of all jobs that read the module.
    """

    def __init__(self, what: str, entries: Mapping[str, T]) -> None:
        super().__init__(entries)
        self.what = what
        self._plugged: dict[str, T] = {}

    def __missing__(self, name: str) -> T:
        raise unknown(self.what, name, self)

    def labels(self: Registry[L], names: Iterable[str | None]) -> dict[str, str]:
        """Return the labels of the entries `names`, in the order of all entries."""
        used = set(names)
        return {name: entry.label for name, entry in self.items() if name in used}

    def places(self, names: Iterable[str]) -> dict[str, int]:
        """Return the positions of `names` among all entries, in order."""
        used = set(names)
        return {name: place for place, name in enumerate(self) if name in used}

    def plug(self, entries: Mapping[str, T]) -> None:
        """Replace the entries of earlier plugins with these; their names must not be taken."""
        for name in self._plugged:
            del self[name]
        self._plugged = dict(entries)
        self.update(entries)
