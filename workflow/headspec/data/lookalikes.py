"""Names that look alike: a common form for names that differ only in case, punctuation, or invisibly.

The skeleton is that of Unicode Technical Standard 39, with its table of confusable characters.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import regex

#: invisible characters, such as soft hyphens and zero-width spaces
UNSEEN = regex.compile(r"\p{DI}|\p{Cf}")
#: characters that comparisons ignore: punctuation and spaces, except beside a digit, as in -1, 1.5 and 10-20
BETWEEN = regex.compile(r"(?<!\p{N})[\p{P}\p{Z}\p{Cc}](?!\p{N})")


class Group(NamedTuple):
    """Names, and all their forms."""

    names: list[str]
    forms: set[str]


def alike(names: Iterable[str]) -> list[list[str]]:
    """Return, in order, groups of at least two names that share `forms`, directly or through others."""
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
    """Return forms of a name: letters, digits and symbols in one case, with lookalikes replaced by one.

    There are two, since upper- and lower-case letters have different lookalikes. Without `confusable`,
    there is one, which suffices among ASCII names; reading the table takes a third of a second.
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
    """Return the character that stands for a character and its lookalikes: the one that has most of them."""
    table = _table()
    others = table.get(character, ())
    alike: list[str] = [character, *others]
    return max(alike, key=lambda one: (len(table.get(one, ())), len(one), one))


@cache
def _table() -> dict[str, list[str]]:
    """Return the lookalikes of each character; the package puts direction marks around some."""
    from confusable_homoglyphs.confusables import confusables_data

    return {
        UNSEEN.sub("", one): [UNSEEN.sub("", other["c"]) for other in others]
        for one, others in confusables_data.items()
    }
