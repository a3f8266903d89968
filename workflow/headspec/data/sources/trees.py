"""Checks of dependency trees."""

import graphlib

from headspec.errors import listing

DIGITS = 9  # of the number of a word
MISSING = (None, "", "_", "None", "nan")  # written in tables for a missing head


def problem(words: list, heads: list, relations: list) -> str | None:
    """Explain why heads, from 1 or 0 for the root, are not a tree with one root; None if they are."""
    n = len(words)
    if not n:
        return "it has no words"
    if not len(heads) == len(relations) == n:
        return f"it has {n} words, {len(heads)} heads and {len(relations)} relations"
    for number, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True), 1):
        if word in (None, ""):
            return f"word {number} is empty"
        if not isinstance(word, str):
            return f"word {number} ({word}) is not text"
        if head in MISSING:
            return f"word {number} ('{word}') has no head"
        if not str(head).isdecimal() or len(str(head)) > DIGITS or int(head) > n:
            return f"word {number} ('{word}') has head {head}, expected 0 (the root) to {n}"
        if relation in MISSING:
            return f"word {number} ('{word}') has no relation"
        if not isinstance(relation, str):
            return f"word {number} ('{word}') has a relation that is not text: {relation}"
    above = {number: int(head) for number, head in enumerate(heads, 1)}
    roots = [number for number, head in above.items() if head == 0]
    if len(roots) > 1:
        return f"it has {len(roots)} roots, words {listing(roots)}"
    try:  # without a root there is a cycle
        graphlib.TopologicalSorter({number: [head] for number, head in above.items()}).prepare()
    except graphlib.CycleError as error:
        cycle = " -> ".join(map(str, reversed(error.args[1])))
        return f"{'' if roots else 'it has no root; '}the heads of words {cycle} form a cycle"
    return None
