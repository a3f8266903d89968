"""How well a text that a model wrote agrees with an answer, from 0 to 1."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec import plugins
from headspec.errors import ScoreError
from headspec.registry import Registry
from headspec.tasks.kinds.answer.metrics import agreement

Floats = NDArray[np.float64]

#: a fraction such as 1 1/2, or digits with or without commas between thousands, decimals and an exponent. A
#: dash is a minus unless it follows a word or bracket, as in 3-4; slashes of dates make no fraction.
NUMBER = re.compile(
    r"(?:(?P<minus>(?<![\w)])[-−–])[$€£]?)?"
    r"(?:(?:(?P<whole>\d+) )?(?<![\w/.,])(?P<top>\d+)/(?P<bottom>\d*[1-9]\d*)(?![\w/]|\.\d)"
    r"|(?P<decimal>(?:\d+(?:(?:,\d{2,3})*,\d{3})?(?!\d)|(?=\.\d))(?:\.\d+)?(?:[eE][-−+]?\d{1,4}(?!\w))?))"
)


def exact_match(text: str, answer: str) -> float:
    """Return 1 if text and answer are the same except for white space around them, else 0."""
    return float(text.strip() == answer.strip())


def f1(text: str, answer: str) -> float:
    """Return F1 of words, as in SQuAD: without case, punctuation and English articles."""
    return agreement(text, [answer])[0]


def contains(text: str, answer: str) -> float:
    """Return 1 if the answer, without white space around it, is anywhere in the text, else 0."""
    return float(answer.strip() in text)


def number(text: str, answer: str) -> float:
    """Return 1 if the last number of the text has the value of the last one of the answer, else 0.

    Integers must be the same to the last digit, others within 1e-9 of their size. Raises ValueError if the
    answer has no number.
    """
    expected, found = last_number(answer), last_number(text)
    if expected is None:
        raise ValueError(f"no number in {answer!r}")
    if found is None:
        return 0.0
    whole = all(each == each.to_integral_value() for each in (found, expected))
    return float(found == expected or (not whole and math.isclose(found, expected, rel_tol=1e-9)))


def last_number(text: str) -> Decimal | None:
    """Return the value of the last number in a text; None if there is none."""
    *_, found = [None, *NUMBER.finditer(text)]
    if found is None:
        return None
    if found["top"]:
        value = Decimal(found["whole"] or 0) + Decimal(found["top"]) / Decimal(found["bottom"])
    else:
        value = Decimal(found["decimal"].replace(",", "").replace("−", "-"))
    return value.copy_negate() if found["minus"] else value


SCORES: Registry[Callable[[str, str], float]] = Registry(
    "score of texts", {"exact_match": exact_match, "f1": f1, "contains": contains, "number": number}
)


def extracted(text: str, pattern: str | None) -> str | None:
    """Return the first group of a regular expression's last match, or the match; None if there is none."""
    if pattern is None:
        return text
    *_, last = [None, *re.finditer(pattern, text)]
    return last and (last[1] if last.re.groups else last[0])


def own(score: Callable[[str, Any], Any], name: str, text: str, reference: Any, where: str = "") -> float:
    """Return the value of a user's score; ScoreError, which names the text, if it fails or is no number."""
    shown = f"for the text {text!r} and the answer {reference!r}{where}"
    try:
        value = score(text, reference)
    except Exception as error:  # the user's code
        raise ScoreError(f"{name} raised {type(error).__name__}: {error}, {shown}") from error
    try:
        if isinstance(value, str | bytes) or np.ndim(value):
            raise TypeError
        number = float(value)
    except Exception:  # any object, of the user's code
        raise ScoreError(f"{name} returned {value!r} {shown}, expected a number") from None
    if not math.isfinite(number):
        raise ScoreError(f"{name} returned {value!r} {shown}, expected a finite number")
    return number


#: constant answers that are tried, and references on which they are compared
TRIED, COMPARED = 10, 200


class Scorer:
    """The scores of a task, by what its `asked` of `headspec.tasks.kinds.generation.kind` says."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.pattern: str | None = asked["pattern"]
        self.reference: str | None = asked["score"]

    @cached_property
    def function(self) -> Callable[[str, str], Any] | None:
        """The user's own score, if the task has one."""
        return plugins.function(self.reference) if self.reference else None

    def values(self, text: str, answer: str, where: str = "") -> list[float]:
        """Return the scores of a text, as in `SCORES`, then the user's own.

        They are 0 where the task has no score of its own or the answer no number. Raises ScoreError, which
        names the text and `where` it is, if the user's own score fails.
        """
        found, expected = extracted(text, self.pattern) or "", extracted(answer, self.pattern)
        expected = answer if expected is None else expected
        values = []
        for score in SCORES.values():
            try:
                values.append(score(found, expected))
            except ValueError:  # an answer without a number
                values.append(0.0)
        if self.function is None:
            return [*values, 0.0]
        return [*values, own(self.function, str(self.reference), found, answer, where)]

    def constants(self, answers: Sequence[str], examples: Sequence[int]) -> Floats:
        """Return the scores (n, metrics) of the constant answer with the best mean of each metric.

        The last scores, the variances of samples, are 0. The answers tried are the empty text and the most
        frequent of `answers`; `examples` has the number of each answer's example.
        """
        distinct, counts = np.unique(np.array(answers, dtype=object), return_counts=True)
        tried = ["", *distinct[np.argsort(-counts, kind="stable")][:TRIED]]
        some = np.unique(np.linspace(0, len(answers) - 1, min(COMPARED, len(answers))).astype(int))

        def of(text: str, rows: Sequence[int]) -> Floats:
            where = [f" of example {examples[i]}" for i in rows]
            return np.array([[*self.values(text, answers[i], each), 0.0]
                             for i, each in zip(rows, where, strict=True)])  # fmt: skip

        best = np.argmax([of(text, some.tolist()).mean(0) for text in tried], axis=0)  # (metrics,)
        every = {i: of(tried[i], range(len(answers))) for i in {*best.tolist()}}
        return np.stack([every[i][:, place] for place, i in enumerate(best.tolist())], axis=1)
