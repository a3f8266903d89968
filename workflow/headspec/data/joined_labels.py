"""Several labels joined in one name, such as ``joy#fear``: the joint, and the labels.

Any joint can be found, because the labels between joints also occur on their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import regex

#: characters between the words of a name
GAP = regex.compile(r"[^\p{L}\p{N}\p{M}]+")
#: commas and semicolons of all scripts, and bars: they join labels, and are rarely part of one
MARKS = regex.compile(r"(?V1)\s*[[\p{Terminal_Punctuation}--\p{STerm}--[:：﹕]]|｜¦]+\s*")
#: maximum number of gaps in a name whose words are tried as joints, such as ``and``; longer names are texts
GAPS = 20
#: minimum number of names in which a word is taken as a joint; one alone may be like "bank of england"
WORDS = 2


class Unclear(ValueError):
    """A `name` looks like several labels joined by `joint`, but one of them is not a label elsewhere."""

    def __init__(self, name: str, joint: str) -> None:
        super().__init__(name)
        self.name, self.joint = name, joint


class Composed(NamedTuple):
    """Labels in one name, and their joint."""

    joint: str
    parts: list[str]


def composed(names: Iterable[str]) -> dict[str, Composed]:
    """Return the names that consist of other names, with one joint each.

    Of several possible joints in a name, the one in most names is taken, then the longest. Numbers are not
    split.
    """
    names = {*names}
    ways: dict[str, list[Composed]] = {}
    for name in names:
        found = (Composed(joint, pieces(name, joint)) for joint in _candidates(name))
        known = [one for one in found if len(one.parts) > 1 and _all_known(one, names)]
        if known:
            ways[name] = known
    n = Counter(one.joint for known in ways.values() for one in known)
    return {
        name: max(known, key=lambda one: (n[one.joint], len(one.joint), one.joint))
        for name, known in ways.items()
    }


def recurring(names: Collection[str]) -> Composed | None:
    """Return a joint, and the names in which all parts between joints are also in other names, or None.

    These are at least two, and more than half of the names with the joint. All names may then join labels, or
    consist of a topic and a subtopic.
    """
    by_joint: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        for joint in _candidates(name):
            by_joint[joint].append(name)
    best = Composed("", [])
    for joint, having in by_joint.items():
        n = Counter(part for name in having for part in {*pieces(name, joint)})
        elsewhere = [name for name in having if all(n[p] > 1 or p in names for p in pieces(name, joint))]
        better = (len(elsewhere), len(joint)) > (len(best.parts), len(best.joint))
        best = Composed(joint, elsewhere) if better and len(elsewhere) > len(having) / 2 else best
    return best if len(best.parts) > 1 else None


def rarely_worded(found: Mapping[str, Composed]) -> Iterator[str]:
    """Yield the names of `composed` that are joined by a word that joins fewer than `WORDS` names."""
    n = Counter(one.joint for one in found.values())
    for name, one in found.items():
        if any(map(str.isalnum, one.joint)) and n[one.joint] < WORDS:
            yield name


def pieces(name: str, joint: str) -> list[str]:
    """Return the parts of a name, without empty parts at its ends."""
    parts = [part.strip() for part in name.split(joint)]
    parts = parts[1:] if len(parts) > 1 and not parts[0] else parts
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def marked(name: str) -> list[str]:
    """Return the parts of a name between `MARKS`; some programs write another mark after the last part."""
    parts: list[str] = MARKS.split(name)
    return parts if parts[-1] or len(parts) == 1 else parts[:-1]


def whole_joint(names: Iterable[str], name: str) -> str:
    """Return the mark in a name, including spaces around it if it has them in all `names`."""
    match = MARKS.search(name)
    assert match is not None
    whole: str = match[0]
    mark = whole.strip() or whole
    every = {joint for other in names for joint in MARKS.findall(other) if joint.strip() == mark}
    return whole if len(every) == 1 else mark


def _candidates(name: str) -> set[str]:
    """Return possible joints in a name: parts of its gaps, and words between two gaps."""
    gaps = [match.span() for match in GAP.finditer(name)]
    inner = [(start, end) for start, end in gaps if start > 0 and end < len(name)]
    joints = set(_parts_of(name[start:end] for start, end in inner))
    if len(inner) <= GAPS and not _is_number(name):
        joints |= {name[one[0] : other[1]] for one, other in zip(inner[:-1], inner[1:], strict=True)}
    return joints if not _is_number(name) else set()


def _parts_of(gaps: Iterable[str]) -> Iterator[str]:
    for gap in {*gaps}:
        yield from (gap[i:j] for i in range(len(gap)) for j in range(i + 1, len(gap) + 1))


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _all_known(one: Composed, names: Collection[str]) -> bool:
    """Return whether all parts are names, possibly with a joint before or after them."""
    after, before = one.joint.rstrip(), one.joint.lstrip()
    return all(
        part and (part in names or part + after in names or before + part in names) for part in one.parts
    )
