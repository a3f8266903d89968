"""Names that look alike: one form of all names that differ in case, in punctuation, or not to the eye.

The skeleton is that of Unicode's technical standard 39, by its table of confusable characters.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import regex

#: characters that are not drawn, such as a soft hyphen or a space without width
UNSEEN = regex.compile(r"\p{DI}|\p{Cf}")
#: what names are compared without: punctuation and spaces, but not beside a digit, as in -1, 1.5 and 10-20
BETWEEN = regex.compile(r"(?<!\p{N})[\p{P}\p{Z}\p{Cc}](?!\p{N})")


class Group(NamedTuple):
    """Names, and all of their forms."""

    names: list[str]
    forms: set[str]


def alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of at least two names that have one of their `forms` in common, in order."""
    names = list(names)
    confusable = not "".join(names).isascii()
    groups: dict[str, Group] = {}
    for name in names:
        own = forms(name, confusable)
        met = {id(groups[one]): groups[one] for one in own if one in groups}.values()
        group = Group(
            [*itertools.chain(*(one.names for one in met)), name], own.union(*(one.forms for one in met))
        )
        groups |= dict.fromkeys(group.forms, group)
    return [
        group.names for group in {id(one): one for one in groups.values()}.values() if len(group.names) > 1
    ]


def forms(name: str, confusable: bool = True) -> set[str]:
    """Return the letters, digits and symbols of a name in one case, with one of those that look alike.

    Capitals look like others than small letters do. Without `confusable`, the form of ASCII names among
    themselves, since reading the table takes a third of a second.
    """
    written = " ".join(_composed(name).split())
    letters = BETWEEN.sub("", written) or written
    if not confusable:
        return {_folded(letters)}
    return {_folded(skeleton(letters)), _folded(skeleton(_folded(letters)))}


def skeleton(text: str) -> str:
    """Return a text with the prototype of each confusable character."""
    return "".join(map(_prototype, unicodedata.normalize("NFD", UNSEEN.sub("", text))))


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", UNSEEN.sub("", text))


def _folded(text: str) -> str:
    return _composed(_composed(text).casefold())


@cache
def _prototype(character: str) -> str:
    """Return what stands for a character and all those like it: the one with which most are confusable."""
    table = _table()
    others = table.get(character, ())
    alike: list[str] = [character, *others]
    return max(alike, key=lambda one: (len(table.get(one, ())), len(one), one))


@cache
def _table() -> dict[str, list[str]]:
    """Return the characters like each; the package writes marks of direction around some."""
    from confusable_homoglyphs.confusables import confusables_data

    return {
        UNSEEN.sub("", one): [UNSEEN.sub("", other["c"]) for other in others]
        for one, others in confusables_data.items()
    }
