"""Constituents, compared as in EVALB with COLLINS.prm (nlp.cs.nyu.edu/evalb), TOP under any name left out."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from headspec.tasks.kinds.constituents.brackets import check_words, parse_tree
from headspec.tasks.kinds.words.base import Units

#: label of words left out before spans are compared
PUNCTUATION = "."
#: their tags
DELETED = {",", ":", "``", "''", "."}
#: labels, in capitals, of the node above a sentence, which is not a constituent
TOPS = {"", "ROOT", "TOP", "S1", "VROOT"}
#: separates labels of constituents with the same words, from top to bottom
JOINT = "+"


class Constituents:
    """Units are (first, last, labels), one for each span of words that is a constituent, and punctuation.

    NP-SBJ becomes NP; labels of a constituent and its only child are joined but counted singly. A bracket is
    right if a gold bracket, each used once, has its label and its words except punctuation. PRT counts as
    ADVP.
    """

    places, links = 2, False
    given = frozenset({PUNCTUATION})

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read a tree in brackets with one leaf per word."""
        if not isinstance(cells[0], str):
            raise ValueError(f"it has {cells[0]!r}, expected a tree in brackets")
        nodes, leaves = parse_tree(cells[0])
        check_words(leaves, words)
        labels: dict[tuple[int, int], str] = {}
        for first, last, label in nodes:
            if (bare := _bare(label)).upper() not in TOPS:
                above = labels.get((first, last))
                labels[first, last] = f"{above}{JOINT}{bare}" if above else bare
        marks = [(at, at, PUNCTUATION) for at, (tag, _) in enumerate(leaves) if tag in DELETED]
        return [(*span, label) for span, label in labels.items()] + marks

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """Return the numbers of right brackets and of predicted brackets."""
        deleted = _deleted(gold)
        right, found = _brackets(gold, deleted), _brackets(predicted, deleted)
        return (right & found).total(), found.total()

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict right-branching trees, with the most frequent labels of whole sentences and of ends."""
        labels: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for units, length in zip(sentences, lengths, strict=True):
            deleted = _deleted(units)
            for (first, end, label), times in _brackets(units, deleted).items():
                if end == length - len(deleted):
                    labels[first == 0][label] += times
        whole, rest = (min(n, key=lambda label: (-n[label], label), default="") for n in labels.values())
        return [
            [(first, length - 1, rest if first else whole) for first in range(max(length - 1, 1))]
            for length in lengths
        ]


def _deleted(units: Units) -> set[int]:
    """Return the words that are left out."""
    return {first for first, _, label in units if label == PUNCTUATION}


def _bare(label: str) -> str:
    """Return a label without its functions."""
    return re.split("[-=]", label)[0] or label


def _brackets(units: Units, deleted: set[int]) -> Counter:
    """Count brackets as (words before, words up to the end, label), without `deleted` words."""
    end = max((last for _, last, _ in units), default=0) + 1
    kept = [0, *accumulate(int(word not in deleted) for word in range(end))]
    return Counter(
        (kept[first], kept[last + 1], "ADVP" if label == "PRT" else label)
        for first, last, labels in units
        if labels != PUNCTUATION and kept[first] < kept[last + 1]
        for label in labels.split(JOINT)
    )


TASK = Constituents()
