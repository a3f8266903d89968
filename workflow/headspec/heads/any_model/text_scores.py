"""How well a text that a model wrote agrees with an answer, from 0 to 1."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from headspec.registry import Registry
from headspec.tasks.kinds.answer.metrics import agreement

#: a number, with or without commas between thousands
NUMBER = re.compile(r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)")


def exact_match(text: str, answer: str) -> float:
    """Return whether text and answer are the same, but for white space around them."""
    return float(text.strip() == answer.strip())


def f1(text: str, answer: str) -> float:
    """Return F1 of words, as in SQuAD: without case, punctuation and English articles."""
    return agreement(text, [answer])[0]


def contains(text: str, answer: str) -> float:
    """Return whether the answer is anywhere in the text."""
    return float(answer.strip() in text)


def number(text: str, answer: str) -> float:
    """Return whether the last number of the text has the value of the last one of the answer.

    ValueError if the answer has none.
    """
    expected, found = last_number(answer), last_number(text)
    if expected is None:
        raise ValueError(f"no number in {answer!r}")
    return float(found is not None and math.isclose(found, expected, rel_tol=1e-9))


def last_number(text: str) -> float | None:
    """Return the value of the last number in a text; None without any."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


SCORES: Registry[Callable[[str, str], float]] = Registry(
    "score of texts", {"exact_match": exact_match, "f1": f1, "contains": contains, "number": number}
)


def before(text: str, stop: Sequence[str]) -> str:
    """Return a text up to the first of the strings that end it."""
    return text[: min((place for each in stop if (place := text.find(each)) >= 0), default=len(text))]


def extracted(text: str, pattern: str | None) -> str | None:
    """Return the first group of a regular expression's last match, or the match; None if there is none."""
    if pattern is None:
        return text
    *_, last = [None, *re.finditer(pattern, text)]
    return last and (last[1] if last.re.groups else last[0])
