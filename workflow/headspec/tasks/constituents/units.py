"""Constituents, compared as EVALB does with the parameters COLLINS.prm (nlp.cs.nyu.edu/evalb).

These leave out TOP; its other names are left out as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from headspec.tasks.constituents.brackets import check_words, read
from headspec.tasks.words.base import Units

#: label of the words that are left out before spans are compared
PUNCTUATION = "."
#: their tags
DELETED = {",", ":", "``", "''", "."}
#: labels, in capitals, of the node above a sentence, which treebanks name in these ways; it is no constituent
TOPS = {"", "ROOT", "TOP", "S1", "VROOT"}
#: labels of constituents of the same words, from above to below
JOINT = "+"


class Constituents:
    """Units are (first, last, labels), one for each span of words that is a constituent, and punctuation.

    Of NP-SBJ, the label is NP; that of a constituent whose only child is another is joined with its. They
    are counted one by one: a bracket is right if gold brackets have its words but for punctuation, and its
    label, each of them once. PRT counts as ADVP.
    """

    places, links = 2, False
    given = frozenset({PUNCTUATION})

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """From a tree in brackets with one leaf for each word."""
        if not isinstance(cells[0], str):
            raise ValueError(f"it has {cells[0]!r}, expected a tree in brackets")
        nodes, leaves = read(cells[0])
        check_words(leaves, words)
        labels: dict[tuple[int, int], str] = {}
        for first, last, label in nodes:
            if (bare := _bare(label)).upper() not in TOPS:
                above = labels.get((first, last))
                labels[first, last] = f"{above}{JOINT}{bare}" if above else bare
        marks = [(at, at, PUNCTUATION) for at, (tag, _) in enumerate(leaves) if tag in DELETED]
        return [(*span, label) for span, label in labels.items()] + marks

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """Numbers of right brackets, and of predicted ones."""
        deleted = _deleted(gold)
        right, found = _brackets(gold, deleted), _brackets(predicted, deleted)
        return (right & found).total(), found.total()

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Right-branching: every word but the last begins a constituent that ends with the sentence.

        The first has the label that whole sentences have most often, the others that of such ends; of equal
        ones, the first by name.
        """
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
    """Words that are left out."""
    return {first for first, _, label in units if label == PUNCTUATION}


def _bare(label: str) -> str:
    """A label without its functions."""
    return re.split("[-=]", label)[0] or label


def _brackets(units: Units, deleted: set[int]) -> Counter:
    """(words before it, words up to its end, label) of every bracket with words, of words not `deleted`."""
    end = max((last for _, last, _ in units), default=0) + 1
    kept = [0, *accumulate(int(word not in deleted) for word in range(end))]
    return Counter(
        (kept[first], kept[last + 1], "ADVP" if label == "PRT" else label)
        for first, last, labels in units
        if labels != PUNCTUATION and kept[first] < kept[last + 1]
        for label in labels.split(JOINT)
    )


TASK = Constituents()
