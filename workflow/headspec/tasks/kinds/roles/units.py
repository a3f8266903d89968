"""Semantic roles of given predicates, counted as in srl-eval.pl of CoNLL-2005 (lsi.upc.edu/~srlconll)."""

from collections.abc import Sequence
from typing import Any

from headspec.data.sources.cells import list_items, one_per_word
from headspec.tasks.kinds.words import bio
from headspec.tasks.kinds.words.base import Units

#: label of predicates
PREDICATE = "V"
#: prefix of a role: these words continue the argument with that role
CONTINUES = "C-"


class Roles:
    """Units are (predicate, first, last, role), and (predicate, predicate, predicate, V) which is given.

    An argument is right if predicate, role and words are. Spans with role C-X belong to the last argument X
    before them, and all must be right; without one they are an argument X. R-X is a separate role. Spans V
    and C-V, the words of the predicate, do not count.
    """

    places, links = 3, True
    given = frozenset({PREDICATE})

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read predicates, places from 0, and a tag per word for each: BIO, or roles joined to spans."""
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
                parsed = bio.parsed(words, tags)
            else:
                parsed = [None if tag == "O" else (False, tag) for tag in tags]
            spans = bio.spans(parsed)
            units += [(at, *span) for span in spans if span[2].removeprefix(CONTINUES) != PREDICATE]
        return units

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """Return the numbers of right arguments and of predicted arguments."""
        right, found = _arguments(gold), _arguments(predicted)
        return len(right & found), len(found)

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict no arguments."""
        return [[] for _ in sentences]


def _arguments(units: Units) -> set[tuple]:
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


TASK = Roles()
