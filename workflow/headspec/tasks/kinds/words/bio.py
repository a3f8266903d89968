"""Spans as tags of words: B- and I- with a type, and O (Ramshaw and Marcus 1995)."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Type = TypeVar("Type", str, int)


def spans(tags: Iterable[tuple[bool, Type] | None]) -> list[tuple[int, int, Type]]:
    """Return (first, last, type) of spans from (begins a span, type) per word, as seqeval by default.

    Words that begin none continue a span before them of their type, or begin one.
    """
    complete: list[tuple[int, int, Type]] = []
    for word, tag in enumerate(tags):
        if tag is None:
            continue
        begins, label = tag
        if complete and not begins and complete[-1][1:] == (word - 1, label):
            complete[-1] = (complete[-1][0], word, label)
        else:
            complete.append((word, word, label))
    return complete


def parsed(words: Sequence[str], tags: Sequence[str]) -> list[tuple[bool, str] | None]:
    """Parse tags for `spans`; raise ValueError if one is not BIO, or an I- follows no word of its type."""
    parts: list[tuple[bool, str] | None] = []
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        if tag == "O":
            parts.append(None)
            continue
        mark, _, label = tag.partition("-")
        if mark not in ("B", "I") or not label:
            scheme = "; convert it from BIOES" if mark in ("E", "S", "L", "U") and label else ""
            raise ValueError(
                f"word {number} ('{word}') has tag {tag}, expected O, or B- or I- and a type{scheme}"
            )
        if mark == "I" and (not parts or parts[-1] is None or parts[-1][1] != label):
            raise ValueError(
                f"word {number} ('{word}') has tag {tag}, but the word before has no {label}; "
                "in BIO each span begins with B-, unlike in IOB1"
            )
        parts.append((mark == "B", label))
    return parts
