"""Tags of words, such as parts of speech; typed spans of words, such as names; and semantic roles.

Names are tagged by BIO (Ramshaw and Marcus 1995). Roles of given predicates are counted as in srl-eval.pl of
CoNLL-2005 (lsi.upc.edu/~srlconll).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headspec.data.sources.columns import list_items, one_per_word, whole
from headspec.tasks.kinds.words.units import Units, matched


class Spans:
    """Units are (first, last, type) without overlap; a span is right if all three are right."""

    places, links = 2, False
    given: frozenset[str] = frozenset()
    count = staticmethod(matched)

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read a BIO tag for each word, or a list of dicts with `start`, `end` (exclusive) and `type`."""
        items = list_items(cells[0])
        if not items or isinstance(items[0], Mapping):
            return _from_dicts(items, len(words))
        return list(spans_of(parsed_tags(words, one_per_word(words, items, "tags"))))

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict no spans."""
        return [[] for _ in sentences]


def _from_dicts(spans: list[Any], length: int) -> Units:
    units: Units = []
    for number, span in enumerate(spans, 1):
        try:
            start, end, label = whole(span["start"]), whole(span["end"]), str(span["type"])
        except (KeyError, TypeError):
            raise ValueError(f"span {number} is {span!r}, expected start, end and type") from None
        except ValueError as error:
            raise ValueError(f"span {number} is {span!r}, of which {error}") from None
        if not 0 <= start < end <= length:
            raise ValueError(f"span {number} has start {start} and end {end}, but there are {length} words")
        units.append((start, end - 1, label))
    units.sort()
    for before, unit in zip(units, units[1:], strict=False):
        if unit[0] <= before[1]:
            raise ValueError(f"{before[2]} and {unit[2]} overlap at word {unit[0] + 1}")
    return units


SPANS_TASK = Spans()


class Tags:
    """Units are (word, tag)."""

    places, links = 1, False
    given: frozenset[str] = frozenset()
    count = staticmethod(matched)

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        return list(enumerate(one_per_word(words, cells[0], "tags", empty=("",))))

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict the most frequent tag for each word."""
        tags = Counter(tag for units in sentences for _, tag in units)
        best = min(tags, key=lambda tag: (-tags[tag], tag)) if tags else ""
        return [[(word, best) for word in range(length)] for length in lengths]


TAGS_TASK = Tags()


#: label of predicates
PREDICATE = "V"
#: prefix of a role: these words continue the argument with that role
CONTINUES = "C-"


class Roles:
    """Units are (predicate, first, last, role), and (predicate, predicate, predicate, V), which is given.

    An argument is right if predicate, role and words are right. Spans with role C-X belong to the last
    argument X before them, and all of these must be right; without such an argument they are an argument X
    themselves. R-X is a separate role. Spans V and C-V, the words of the predicate, do not count.
    """

    places, links = 3, True
    given = frozenset({PREDICATE})

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read predicates (positions from 0), and a tag per word for each: BIO, or roles joined to spans."""
        predicates, tagged = map(list_items, cells)
        if len(predicates) != len(tagged):
            raise ValueError(f"it has {len(predicates)} predicates and {len(tagged)} lists of roles")
        units: Units = []
        for number, (predicate, cell) in enumerate(zip(predicates, tagged, strict=True), 1):
            at = int(predicate) if str(predicate).isdecimal() else -1
            if not 0 <= at < len(words):
                raise ValueError(f"predicate {number} is {predicate}, expected 0 to {len(words) - 1}")
            if (at, at, at, PREDICATE) in units:
                raise ValueError(f"word {at + 1} is a predicate twice")
            units.append((at, at, at, PREDICATE))
            tags = one_per_word(words, cell, "roles")
            if any(tag[:2] in ("B-", "I-") for tag in tags):
                parsed = parsed_tags(words, tags)
            else:
                parsed = [None if tag == "O" else (False, tag) for tag in tags]
            spans = spans_of(parsed)
            units += [(at, *span) for span in spans if span[2].removeprefix(CONTINUES) != PREDICATE]
        return units

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """Return the numbers of right arguments and of predicted arguments."""
        right, predicted_units = _arguments(gold), _arguments(predicted)
        return len(right & predicted_units), len(predicted_units)

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict no arguments."""
        return [[] for _ in sentences]


def _arguments(units: Units) -> set[tuple[Any, ...]]:
    """Return (predicate, role, spans) of each argument."""
    spans: list[tuple[int, str, list[tuple[int, int]]]] = []
    latest: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for predicate, first, last, label in sorted(units):
        role = label.removeprefix(CONTINUES)
        if label == PREDICATE:
            continue
        if role == label or (predicate, role) not in latest:
            latest[predicate, role] = []
            spans.append((predicate, role, latest[predicate, role]))
        latest[predicate, role].append((first, last))
    return {(predicate, role, tuple(places)) for predicate, role, places in spans}


ROLES_TASK = Roles()


Type = TypeVar("Type", str, int)


def spans_of(tags: Iterable[tuple[bool, Type] | None]) -> list[tuple[int, int, Type]]:
    """Return (first, last, type) of spans from (starts a span, type) or None per word, as seqeval by default.

    A word that does not start a span continues the span of the word before if it has the same type, and
    otherwise starts one.
    """
    complete: list[tuple[int, int, Type]] = []
    for word, tag in enumerate(tags):
        if tag is None:
            continue
        begins, label = tag
        if complete and not begins and complete[-1][1:] == (word - 1, label):
            complete[-1] = (complete[-1][0], word, label)
        else:
            complete.append((word, word, label))
    return complete


def parsed_tags(words: Sequence[str], tags: Sequence[str]) -> list[tuple[bool, str] | None]:
    """Parse tags for `spans_of`; raise ValueError if a tag is not BIO, or I- does not follow its type."""
    parts: list[tuple[bool, str] | None] = []
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        if tag == "O":
            parts.append(None)
            continue
        mark, _, label = tag.partition("-")
        if mark not in ("B", "I") or not label:
            scheme = "; convert it from BIOES" if mark in ("E", "S", "L", "U") and label else ""
            raise ValueError(
                f"word {number} ('{word}') has tag {tag}, expected O, or B- or I- and a type{scheme}"
            )
        if mark == "I" and (not parts or parts[-1] is None or parts[-1][1] != label):
            raise ValueError(
                f"word {number} ('{word}') has tag {tag}, but the word before has no {label}; "
                "in BIO each span begins with B-, unlike in IOB1"
            )
        parts.append((mark == "B", label))
    return parts
