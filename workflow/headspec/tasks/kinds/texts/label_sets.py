"""Sets of labels: several names in a cell, sets as JSON, and as rows of 0 and 1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headspec.data import joined_labels


def split_names(names: Iterable[str], whole: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the labels in each name that is several labels, all of which are labels elsewhere.

    Parameters
    ----------
    names : what cells hold
    whole : names that are one label each, in which parts may be found, too

    Raises
    ------
    joined_labels.Unclear
        A name has one of `joined_labels.MARKS`, or what joins other labels, or spaces between words that
        other names have, too; but some parts are not labels elsewhere.
    """
    whole = {*whole}
    names = {*names} - whole
    parts = {name: joined_labels.marked(name) for name in names if joined_labels.MARKS.search(name)}
    single = whole | (names - {*parts}) | {pieces[0] for pieces in parts.values() if len(pieces) == 1}
    for name in sorted(parts):
        if not {*parts[name]} <= single:
            raise joined_labels.Unclear(name, joined_labels.whole_joint(names, name))
    return parts | _at_other_joints(single - whole, whole)


def _at_other_joints(names: set[str], whole: set[str]) -> dict[str, list[str]]:
    """Return the labels in names that are joined by anything but `joined_labels.MARKS`; raise `Unclear`."""
    found = {name: one for name, one in joined_labels.composed(names | whole).items() if name in names}
    for name in joined_labels.rarely_worded(found):
        raise joined_labels.Unclear(name, found[name].joint)
    usual = dict.fromkeys(one.joint for one in found.values())
    alone = (names | whole) - {*found}
    for name in sorted(names - {*found}):
        for joint in usual:
            if len(pieces := joined_labels.pieces(name, joint)) > 1 and not alone.isdisjoint(pieces):
                raise joined_labels.Unclear(name, joint)
    spaced = {name: pieces for name in sorted(names - {*found}) if len(pieces := name.split()) > 1}
    n = Counter(word for name in names for word in {*name.split()})
    for name, pieces in spaced.items():
        if all(word in alone - {*spaced} or n[word] > 1 for word in pieces):
            several = joined_labels.recurring(names)
            raise joined_labels.Unclear(name, several.joint if several and several.joint in name else " ")
    return {name: one.parts for name, one in found.items()}


def written(names: Iterable[str]) -> str:
    """Return a set of labels as a sorted list in JSON."""
    return json.dumps(sorted({*names}), ensure_ascii=False)


def parsed(label: str) -> list[str]:
    """Return the names in the JSON that `written` returned."""
    return [str(name) for name in json.loads(label)]


def indicators(labels: Iterable[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Return rows of 0 and 1, (n, names), for sets of labels in JSON."""
    index = {name: i for i, name in enumerate(names)}
    sets = [parsed(label) for label in labels]
    rows = np.zeros((len(sets), len(names)))
    for row, chosen in zip(rows, sets, strict=True):
        row[[index[name] for name in chosen]] = 1
    return rows
