"""F1 and exact match of answers (Rajpurkar et al. 2016), and how answers are split."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import regex
from numpy.typing import NDArray

from headspec.data import characters
from headspec.tasks.metrics import Metric, mean, taken

Floats = NDArray[np.float64]


def _none(label: Floats) -> Floats:
    """Predict no answer to any question, since no other text answers many."""
    return np.repeat(label, 2, axis=-1)


METRICS = {
    "answer_f1": Metric("F1 of answers", partial(taken, 0), mean, _none, several=True),
    "answer_exact_match": Metric("exact match of answers", partial(taken, 1), mean, _none, several=True),
}


#: words of an answer, without what does not count
Split = Callable[[str], list[str]]

#: removed from answers before comparison
PUNCTUATION, ARTICLES = str.maketrans("", "", string.punctuation), re.compile(r"\b(a|an|the)\b")
#: the same where words have no spaces between them
MARKS = regex.compile(rf"[\p{{P}}{re.escape(string.punctuation)}]")
#: a letter of scripts without spaces, with its marks, or a run of other characters
CHARACTERS = regex.compile(
    rf"(?V1)(?<letter>[[{characters.UNSPACED}\p{{scx=Han}}\p{{scx=Katakana}}]&&[\p{{L}}\p{{N}}]]\p{{M}}*)"
    r"|(?:(?!(?&letter))\S)+"
)


def by_words(text: str) -> list[str]:
    """Return the words of an answer between spaces, in lower case, without punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def by_characters(text: str) -> list[str]:
    """Return the letters of an answer without spaces between words, and words of other scripts."""
    return [match[0] for match in CHARACTERS.finditer(MARKS.sub("", text.lower()))]


def split_for(context: str) -> Split:
    """Return how answers from a context are split: by words in Korean, which has spaces between words."""
    return by_words if characters.unspaced([context]) in (None, "ko") else by_characters


def agreement(prediction: str, golds: Sequence[str], split: Split = by_words) -> tuple[float, float]:
    """Return F1 and exact match of an answer, each the largest over gold answers; empty means none."""
    units = split(prediction)
    expected = [words for gold in golds if (words := split(gold))] or [[]]
    return max(_f1(units, words) for words in expected), float(units in expected)


def _f1(predicted: list[str], expected: list[str]) -> float:
    if not predicted or not expected:
        return float(predicted == expected)
    same = (Counter(predicted) & Counter(expected)).total()
    return 2 * same / (len(predicted) + len(expected))
