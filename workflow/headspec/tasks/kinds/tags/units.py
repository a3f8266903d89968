"""A label for every word, such as its part of speech."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from headspec.data.sources.cells import one_per_word
from headspec.tasks.kinds.words.base import Units, matched


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


TASK = Tags()
