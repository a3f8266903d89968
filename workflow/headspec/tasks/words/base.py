"""What every type of task on words has: units, and how they are counted.

The annotation of a sentence is a list of units, each a tuple of places of words, from 0, and a label: a tag
is (word, tag), a span (first, last, type), an arc (word, head, relation), where the root is its own head. In
tables it is JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from headspec.tasks import load_part

#: index of labels that training does not have, and word of tokens that belong to none
NONE = -1

Unit = tuple[Any, ...]
Units = list[Unit]


class WordTask(Protocol):
    """A type of task on words.

    Attributes
    ----------
    places : number of places of words in a unit
    given : labels of units that are known beforehand, and neither predicted nor counted
    links : whether a unit relates its first word to the others, so that attention may show it; else the
        words from its first place to its last have the label
    """

    places: int
    given: frozenset[str]
    links: bool

    def units(self, words: Sequence[str], *cells: Any) -> Units:
        """The units of a sentence from the cells of its columns.

        Raises
        ------
        ValueError
            The cells are no such annotation of these words; it says why, in a clause.
        """

    def count(self, gold: Units, predicted: Units) -> tuple[int, int]:
        """What the metrics of a sentence are computed from (`headspec.tasks.words.unit_metrics`).

        Labels are names, of `gold` also those that training does not have. What `gold` has in common with
        itself is what there is to find.
        """

    def blind(self, sentences: Sequence[Units], lengths: Sequence[int]) -> list[Units]:
        """The best prediction of every sentence that is made without reading it, on all these sentences."""


def word_task(kind: str) -> WordTask:
    """Return the annotation of a kind of task on words: `TASK` of its ``units.py``."""
    return cast(WordTask, load_part(kind, "units").TASK)


def matched(gold: Units, predicted: Units) -> tuple[int, int]:
    """Number of predicted units that are right, each gold unit once, and number of predicted units."""
    return (Counter(gold) & Counter(predicted)).total(), len(predicted)


def written(units: Units) -> str:
    """Units as they stand in tables."""
    return json.dumps(units, ensure_ascii=False, separators=(",", ":"))


def parsed(annotation: str) -> Units:
    """The units of `written`."""
    return [tuple(unit) for unit in json.loads(annotation)]


def gold_counts(task: WordTask, sentences: Sequence[Units], lengths: Sequence[int]) -> NDArray[np.float64]:
    """The labels (n, 3) of sentences: what there is to find, and the counts of the blind prediction."""
    guesses = zip(sentences, task.blind(sentences, lengths), strict=True)
    counts = [(task.count(gold, gold)[0], *task.count(gold, guess)) for gold, guess in guesses]
    return np.array(counts, dtype=float).reshape(-1, 3)
