"""Why the heads of words are no dependency tree."""

from __future__ import annotations

from headspec.errors import listing

DIGITS = 9  # of the number of a word
MISSING = (None, "", "_", "None", "nan")  # ways in which tables lack a head


def problem(words: list, heads: list, relations: list) -> str | None:
    """Why a sentence is not a tree with one root, else None; heads are from 1, and 0 for the root."""
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
    above = [0, *map(int, heads)]
    roots = [number for number in range(1, n + 1) if above[number] == 0]
    if len(roots) > 1:
        return f"it has {len(roots)} roots, words {listing(roots)}"
    return _cycle(above)  # without a root there is one


def _cycle(above: list[int]) -> str | None:
    """The first cycle of heads, `above[i]` being that of word i; None if all words lead to the root."""
    safe = {0}
    for number in range(1, len(above)):
        path = []
        while number not in safe and number not in path:
            path.append(number)
            number = above[number]
        if number in path:
            cycle = [*path[path.index(number) :], number]
            root = "" if 0 in above[1:] else "it has no root; "
            return f"{root}the heads of words {' -> '.join(map(str, cycle))} form a cycle"
        safe.update(path)
    return None
