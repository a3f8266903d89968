"""Spans of words with a type, such as named entities."""

from collections.abc import Mapping, Sequence
from typing import Any

from headspec.data.sources.cells import list_items, one_per_word
from headspec.tasks.kinds.words import bio
from headspec.tasks.kinds.words.base import Units, matched


class Spans:
    """Units are (first, last, type) without overlap; a span is right if all three are."""

    places, links = 2, False
    given: frozenset[str] = frozenset()
    count = staticmethod(matched)

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read a BIO tag for each word, or a list of dicts with `start`, `end` (exclusive) and `type`."""
        found = list_items(cells[0])
        if not found or isinstance(found[0], Mapping):
            return _from_dicts(found, len(words))
        return list(bio.spans(bio.parsed(words, one_per_word(words, found, "tags"))))

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict no spans."""
        return [[] for _ in sentences]


def _from_dicts(spans: list[Any], length: int) -> Units:
    units: Units = []
    for number, span in enumerate(spans, 1):
        try:
            start, end, label = int(span["start"]), int(span["end"]), str(span["type"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"span {number} is {span!r}, expected start, end and type") from None
        if not 0 <= start < end <= length:
            raise ValueError(f"span {number} has start {start} and end {end}, but there are {length} words")
        units.append((start, end - 1, label))
    units.sort()
    for before, unit in zip(units, units[1:], strict=False):
        if unit[0] <= before[1]:
            raise ValueError(f"{before[2]} and {unit[2]} overlap at word {unit[0] + 1}")
    return units


TASK = Spans()
