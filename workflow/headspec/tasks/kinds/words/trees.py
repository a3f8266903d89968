"""Dependency trees, and constituents in brackets as in the Penn Treebank; trees with the best scores.

Constituents are compared as in EVALB with COLLINS.prm (nlp.cs.nyu.edu/evalb), leaving out TOP under any name.
The best dependencies are found by the algorithm of Chu and Liu (1965) and Edmonds (1967): for 20 and 80 words
this takes 0.7 and 3 ms; networkx takes 10 and 300 ms, longer than an encoder. Binary trees of spans are found
as in Stern, Andreas and Klein (2017).
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.data.sources.columns import list_items
from headspec.data.sources.treebank import tree_problem
from headspec.tasks.kinds.words.units import Units

#: label of words that are left out before spans are compared
PUNCTUATION = "."
#: tags of such words
DELETED = {",", ":", "``", "''", "."}
#: labels, in upper case, of the node above a sentence, which is not a constituent
TOPS = {"", "ROOT", "TOP", "S1", "VROOT"}
#: separates labels of constituents with the same words, from top to bottom
JOINT = "+"


class Constituents:
    """Units are (first, last, labels), one for each span of words that is a constituent, and punctuation.

    NP-SBJ becomes NP; labels of a constituent and its only child are joined but counted separately. A bracket
    is right if a gold bracket, each used once, has its label and its words except punctuation. PRT counts as
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
        right, predicted_units = _brackets(gold, deleted), _brackets(predicted, deleted)
        return (right & predicted_units).total(), predicted_units.total()

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Predict right-branching trees with the most frequent labels of whole sentences and their ends."""
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
    """Return the words that are left out, by their places."""
    return {first for first, _, label in units if label == PUNCTUATION}


def _bare(label: str) -> str:
    """Return a label without its function tags."""
    return re.split("[-=]", label)[0] or label


def _brackets(units: Units, deleted: set[int]) -> Counter[Any]:
    """Count brackets as (words before, words up to the end, label), without `deleted` words."""
    end = max((last for _, last, _ in units), default=0) + 1
    kept = [0, *accumulate(int(word not in deleted) for word in range(end))]
    return Counter(
        (kept[first], kept[last + 1], "ADVP" if label == "PRT" else label)
        for first, last, labels in units
        if labels != PUNCTUATION and kept[first] < kept[last + 1]
        for label in labels.split(JOINT)
    )


CONSTITUENTS_TASK = Constituents()


TOKEN = re.compile(r"\(\s*(?P<label>[^\s()]*)|(?P<word>[^\s()]+)|\)")
#: escapes of brackets in words of a tree
ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}

#: first and last word, and label
Span = tuple[int, int, str]


def parse_tree(tree: str) -> tuple[list[Span], list[tuple[str, str]]]:
    """Return constituents, parents first, and (tag, word) of the leaves of a tree; ValueError if invalid."""
    nodes: list[list[Any]] = []
    leaves: list[tuple[str, str]] = []
    path: list[
        list[Any]
    ] = []  # open brackets: first word, last word, and label, or None for the tag of a word
    for match in TOKEN.finditer(tree):
        inside = bool(path) and path[-1][2] is not None
        if match["label"] is not None and (inside or not nodes and not leaves):
            path.append([len(leaves), 0, match["label"]])
            nodes.append(path[-1])
        elif match["word"] and inside and path[-1][0] == len(leaves):
            leaves.append((nodes.pop()[2], match["word"]))
            path[-1][2] = None
        elif match[0] == ")" and path and path[-1][0] < len(leaves):
            path.pop()[1] = len(leaves) - 1
        else:
            raise ValueError(f"its tree cannot go on with '{match[0]}' after word {len(leaves)}")
    if path or not leaves:
        raise ValueError(f"its tree lacks {len(path)} closing brackets" if path else "it has no tree")
    return [(first, last, label) for first, last, label in nodes], leaves


def check_words(leaves: Sequence[tuple[str, str]], words: Sequence[str]) -> None:
    """Raise ValueError if the leaves of a tree are not these words."""
    if len(leaves) != len(words):
        raise ValueError(f"it has {len(words)} words and a tree of {len(leaves)}")
    for number, ((_, leaf), word) in enumerate(zip(leaves, words, strict=True), 1):
        if escaped(leaf) != escaped(word):
            raise ValueError(f"word {number} ('{word}') is '{leaf}' in its tree")


def escaped(word: str) -> str:
    """Return a word with brackets escaped as in the Penn Treebank."""
    for bracket, name in ESCAPES.items():
        word = word.replace(bracket, name)
    return word


class Dependencies:
    """Units are (word, head, relation), one per word; the root is its own head.

    Attachment is the share of all words with the right head and, if labelled, the right full relation.
    """

    places, links = 2, True
    given: frozenset[str] = frozenset()

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Read the number of each word's head, from 1 (0 for the root), and its relation."""
        heads, relations = map(list_items, cells)
        if clause := tree_problem(list(words), heads, relations):
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
        """Predict each head at the distance that is most often right, with its most frequent relation.

        Words without a word there are roots. Ties go to the shorter, then the left distance, and to the first
        relation.
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


DEPENDENCIES_TASK = Dependencies()


Floats = NDArray[np.float64]
Heads = NDArray[np.int64]


def best_tree(scores: Floats) -> Heads:
    """Return each word's head, from 1, or 0 for the one root, in the tree with the highest sum of scores.

    If the best heads are not such a tree, arcs from the root are penalised by more than a second one could
    gain. `scores` (words, words + 1) are for the root and each word as head, and finite except for the word
    itself.
    """
    words = len(scores)
    padded = np.concatenate([np.full((1, words + 1), -np.inf), scores])
    np.fill_diagonal(padded, -np.inf)
    heads = _best(padded)
    if (heads[1:] == 0).sum() == 1 and not len(_cycle(heads)):
        return heads[1:]
    possible = padded[np.isfinite(padded)]
    padded[1:, 0] -= 1 + words * (possible.max() - possible.min())
    return _arborescence(padded)[1:]


def _best(scores: Floats) -> Heads:
    heads: Heads = scores.argmax(1)
    heads[0] = 0
    return heads


def _cycle(heads: Heads) -> Heads:
    """Return the nodes of a cycle of heads; empty if all lead to the root 0, which is its own head."""
    above = heads
    for _ in range(len(heads).bit_length()):  # doubling, for at least as many steps up as nodes
        above = above[above]
    cycle = above[above > 0][:1].tolist()
    while cycle and (head := int(heads[cycle[-1]])) != cycle[0]:
        cycle.append(head)
    return np.array(cycle, dtype=np.int64)


def _arborescence(scores: Floats) -> Heads:
    """Return the best head of each node, (nodes,), such that all lead to node 0.

    A cycle of best heads is contracted to one node, the last; one of its nodes gets a head from outside.
    `scores` (nodes, nodes) are for the heads of each node; -inf for itself.
    """
    heads = _best(scores)
    cycle = _cycle(heads)
    if not len(cycle):
        return heads
    rest = np.setdiff1d(np.arange(len(scores)), cycle)
    into = scores[np.ix_(cycle, rest)] - scores[cycle, heads[cycle], None]  # instead of the head in the cycle
    out = scores[np.ix_(rest, cycle)]
    joined = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    joined[:-1, :-1] = scores[np.ix_(rest, rest)]
    joined[-1, :-1], joined[:-1, -1] = into.max(0), out.max(1)
    joined_heads = _arborescence(joined)
    entry = joined_heads[-1]
    heads[cycle[into[:, entry].argmax()]] = rest[entry]
    heads[rest] = np.append(rest, 0)[joined_heads[:-1]]
    below = joined_heads[:-1] == len(rest)  # words whose head is in the cycle
    heads[rest[below]] = cycle[out[below].argmax(1)]
    return heads


def best_spans(scores: Floats, lengths: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return (first, last) of the spans of the best binary tree of each sentence, parents first.

    `scores` are (sentences, words, words) by first and last word.
    """
    sentences, words = scores.shape[:2]
    # best sum of spans within a span, by its first and by its last word, and number of words after or before
    by_first, by_last = (np.zeros((sentences, words, words)) for _ in range(2))
    splits = np.zeros((sentences, words, words), dtype=np.int64)
    for more in range(words):  # words after the first
        n = words - more
        best = scores[:, np.arange(n), np.arange(more, words)]  # (sentences, spans)
        if more:
            sums = by_first[:, :n, :more] + by_last[:, more:, more - 1 :: -1][..., :more]
            split = sums.argmax(-1)  # words of the first part, after its first
            best = best + np.take_along_axis(sums, split[..., None], -1)[..., 0]
            splits[:, :n, more] = split
        by_first[:, :n, more] = by_last[:, more:, more] = best
    return [_spans(split, length) for split, length in zip(splits.tolist(), lengths, strict=True)]


def _spans(splits: list[list[int]], length: int) -> list[tuple[int, int]]:
    spans, left = [], [(0, length - 1)]
    while left:
        first, last = left.pop()
        spans.append((first, last))
        if first < last:
            middle = first + splits[first][last - first]
            left += [(middle + 1, last), (first, middle)]
    return spans
