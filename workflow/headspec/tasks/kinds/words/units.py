"""Units of annotation, and how they are counted.

A unit is a tuple of places of words, from 0, and a label: a tag (word, tag), a span (first, last, type), an
arc (word, head, relation), where the root is its own head. Tables have the units of a sentence as JSON.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.parts import load_part

#: index of labels missing in training, and word of tokens outside words, as in `headspec.models.word_tokens`
NONE = -1

Unit = tuple[Any, ...]
Units = list[Unit]


class WordTask(Protocol):
    """The annotation of a kind of task on words.

    Attributes
    ----------
    places : number of places of words in a unit
    given : labels of units known beforehand, and neither predicted nor counted
    links : whether a unit relates its first word to the others, so that attention may show it; otherwise all
        words from its first to its last place have the label
    """

    places: int
    given: frozenset[str]
    links: bool

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """Return the units of a sentence from its columns; ValueError with a clause for invalid cells."""

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """Return counts for the metrics of a sentence (`headspec.tasks.kinds.words.metrics`).

        Labels in `gold` may be unknown. The first count of `gold` against itself is its number of units.
        """

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """Return the best prediction for these sentences from their lengths alone."""


def word_task(kind: str) -> WordTask:
    """Return `TASK` of a kind of task on words."""
    return cast(WordTask, load_part(kind, "TASK"))


def matched(gold: Units, predicted: Units) -> tuple[int, int]:
    """Return the number of right predicted units, each gold unit used once, and of all predicted units."""
    return (Counter(gold) & Counter(predicted)).total(), len(predicted)


def written(units: Units) -> str:
    """Return units as JSON for tables."""
    return json.dumps(units, ensure_ascii=False, separators=(",", ":"))


def parsed(annotation: str) -> Units:
    """Return the units in JSON from `written`."""
    return [tuple(unit) for unit in json.loads(annotation)]


def gold_counts(task: WordTask, sentences: Sequence[Units], lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return labels (n, 3) of sentences: the number of units, and the counts of the blind prediction."""
    guesses = zip(sentences, task.blind(sentences, lengths), strict=True)
    counts = [(task.count(gold, gold)[0], *task.count(gold, guess)) for gold, guess in guesses]
    return np.array(counts, dtype=float).reshape(-1, 3)
