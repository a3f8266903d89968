"""Constituents in brackets, as in the Penn Treebank."""

import re
from collections.abc import Sequence

TOKEN = re.compile(r"\(\s*(?P<label>[^\s()]*)|(?P<word>[^\s()]+)|\)")
#: escapes of brackets in words of a tree
ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}

#: first and last word, and label
Span = tuple[int, int, str]


def parse_tree(tree: str) -> tuple[list[Span], list[tuple[str, str]]]:
    """Return constituents, parents first, and (tag, word) of the leaves of a tree; ValueError if invalid."""
    nodes: list[list] = []
    leaves: list[tuple[str, str]] = []
    path: list[list] = []  # open brackets: first word, last word, and label, or None for the tag of a word
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
    for bracket, name in ESCAPES.items():
        word = word.replace(bracket, name)
    return word
