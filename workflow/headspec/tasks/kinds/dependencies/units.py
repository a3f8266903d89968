"""Dependency trees."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from headspec.data.sources.cells import list_items
from headspec.data.sources.trees import problem
from headspec.tasks.kinds.words.base import Units


class Dependencies:
    """Units are (word, head, relation), one per word; the root is its own head.

    Attachment is the share of all words with the right head and, if labelled, the right whole relation.
    """

    places, links = 2, True
    given: frozenset[str] = frozenset()

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read the number of each word's head, from 1, or 0 for the root, and its relation."""
        heads, relations = map(list_items, cells)
        if clause := problem(list(words), heads, relations):
            raise ValueError(clause)
        return [
            (word, int(head) - 1 if int(head) else word, relation)
            for word, (head, relation) in enumerate(zip(heads, relations, strict=True))
        ]

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """Return the numbers of words with the right head and relation, and with the right head."""
        heads = {unit[:2] for unit in gold}
        return len({*gold} & {*predicted}), sum(unit[:2] in heads for unit in predicted)

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict each head at the distance that is right most often, with its most frequent relation.

        Words without a word there are roots. Ties: the shorter, then the left distance; the first relation.
        """
        arcs = Counter((head - word, relation) for units in sentences for word, head, relation in units)
        relations: dict[int, str] = {}
        for distance, relation in sorted(arcs, key=lambda arc: (-arcs[arc], arc[1])):
            relations.setdefault(distance, relation)
        heads: Counter[int] = Counter()
        for (distance, _), times in arcs.items():
            heads[distance] += times
        best = min(heads, key=lambda distance: (-heads[distance], abs(distance), distance), default=0)
        return [
            [
                (word, word + best, relations[best])
                if 0 <= word + best < length
                else (word, word, relations.get(0, ""))
                for word in range(length)
            ]
            for length in lengths
        ]


TASK = Dependencies()
