"""Names of several labels: in tables, as rows of 0 and 1, and joined in the cells of a source."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

#: joins labels, and is hardly part of a name; some programs also write one after the last label
JOINT = re.compile(r"\s*([,;|，；｜、])\s*")


class Joined(ValueError):
    """A `name` looks like several labels between a `separator`, one of which is not a label elsewhere."""

    def __init__(self, name: str, separator: str) -> None:
        super().__init__(name)
        self.name, self.separator = name, separator


def split_names(names: Iterable[str], whole: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the parts of each name that is several labels, all of which are labels elsewhere.

    Parameters
    ----------
    names : what cells hold
    whole : names that are one label each, in which parts may be found, too

    Raises
    ------
    Joined
        A name has a `JOINT`, or spaces between words that other names have, too, but some parts are not
        labels elsewhere. Other spaces belong to names.
    """
    whole = {*whole}
    names = {*names} - whole
    jointed = {name: match[1] for name in names if (match := JOINT.search(name))}
    parts = {name: _parts(name) for name in jointed}
    single = whole | (names - {*jointed}) | {pieces[0] for pieces in parts.values() if len(pieces) == 1}
    for name in sorted(parts):
        if not {*parts[name]} <= single:
            raise Joined(name, jointed[name])
    return parts | _at_spaces(single - whole, whole)


def combinations(names: Iterable[str]) -> list[str]:
    """Return the names that are several of the others, joined."""
    known = {*names}

    def combined(pieces: list[str]) -> bool:
        return len(pieces) > 1 and known.issuperset(pieces)

    return sorted(name for name in known if combined(_parts(name)) or combined(name.split()))


def _parts(name: str) -> list[str]:
    pieces = JOINT.split(name)[::2]
    return pieces if pieces[-1] else pieces[:-1]


def _at_spaces(names: set[str], whole: set[str]) -> dict[str, list[str]]:
    words = {name: pieces for name in names if len(pieces := name.split()) > 1}
    single = whole | (names - {*words})
    parts = {name: pieces for name, pieces in words.items() if {*pieces} <= single}
    n = Counter(word for pieces in words.values() for word in {*pieces})
    for name, pieces in sorted(words.items()):
        elsewhere = [word in single or n[word] > 1 for word in pieces]
        if name not in parts and (all(elsewhere) or (parts and not single.isdisjoint(pieces))):
            raise Joined(name, " ")
    return parts


def written(names: Iterable[str]) -> str:
    """Return a set of labels as a sorted list in JSON."""
    return json.dumps(sorted({*names}), ensure_ascii=False)


def parsed(label: str) -> list[str]:
    """Return the names in JSON from `written`."""
    return [str(name) for name in json.loads(label)]


def indicators(labels: Iterable[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Return rows of 0 and 1, (n, names), for sets of labels in JSON."""
    index = {name: i for i, name in enumerate(names)}
    sets = [parsed(label) for label in labels]
    rows = np.zeros((len(sets), len(names)))
    for row, chosen in zip(rows, sets, strict=True):
        row[[index[name] for name in chosen]] = 1
    return rows
