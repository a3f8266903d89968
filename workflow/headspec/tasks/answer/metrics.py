"""Exact match and F1 of predicted answers, normalised as in SQuAD's script (Rajpurkar et al. 2016, 2018).

The prediction has the largest F1 and exact match over gold answers, the label the scores of predicting no
answer: 1 where there is none, else 0.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric
from headspec.tasks.sums import mean, taken

Floats = NDArray[np.float64]

#: removed from answers before comparison
PUNCTUATION, ARTICLES = str.maketrans("", "", string.punctuation), re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> list[str]:
    """Return the words of an answer in lower case, without punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def agreement(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Return F1 and exact match of an answer, each the largest over gold answers; empty means none."""
    found = normalised(prediction)
    expected = [words for gold in golds if (words := normalised(gold))] or [[]]
    return max(_f1(found, words) for words in expected), float(found in expected)


def _f1(found: list[str], expected: list[str]) -> float:
    if not found or not expected:
        return float(found == expected)
    same = (Counter(found) & Counter(expected)).total()
    return 2 * same / (len(found) + len(expected))


def _none(label: Floats) -> Floats:
    """Predict no answer to any question, since no other text answers many."""
    return np.repeat(label, 2, axis=-1)


METRICS = {
    "answer_f1": Metric("F1 of answers", partial(taken, 0), mean, _none, several=True),
    "answer_exact_match": Metric("exact match of answers", partial(taken, 1), mean, _none, several=True),
}
