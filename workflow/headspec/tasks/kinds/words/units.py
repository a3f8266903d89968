"""Units of annotation, and how they are counted.

A unit is a tuple of places of words, from 0, and a label: a tag (word, tag), a span (first, last, type), an
arc (word, head, relation), where the root is its own head. Tables have the units of a sentence as JSON.
Sources count spans in words, or in characters of texts. Metrics are shares of right units, and F1: labels
have the number of units and the counts of the blind prediction, predictions their counts.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from headspec.data.sources.columns import SPACES, list_items, whole
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
        """Return counts for the metrics of a sentence (`headspec.tasks.kinds.words.units`).

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


WORDS = re.compile(rf"(?:(?!{SPACES.pattern}).)+", re.DOTALL)
#: minimum number of rows that tell which of two readings of all spans is meant; words rarely begin and end at
#: the characters with their own numbers
ENOUGH = 10


def in_characters(texts: Iterable[Any], cells: Iterable[Any]) -> bool:
    """Return whether the spans in `cells` are counted in characters of `texts`, which are not lists of words.

    They are if the spans of more texts are whole words when counted in characters than fit when counted in
    words. They also are if as many texts fit either way, and both ways differ in at least `ENOUGH` of them;
    raises ValueError if they differ in fewer.
    """
    both = by_words = by_characters = 0
    for text, cell in zip(texts, cells, strict=True):
        if isinstance(text, str) and (spans := _spans(cell)):
            words, characters = _counted_in_words(text, spans), _counted_in_characters(text, cell)
            by_words += words is not None
            by_characters += characters is not None
            both += None not in (words, characters) and words != characters
    if by_words != by_characters or not both:
        return by_characters > by_words
    if both < ENOUGH:
        raise ValueError(
            f"the spans of all {by_words} rows with spans may be counted in words or in characters; expected "
            "BIO tags, or lists of words instead of texts"
        )
    return True


def to_words(text: str, cell: Any) -> Any:
    """Return spans counted in characters as spans counted in words; ends are exclusive in both.

    Cells without spans are unchanged. Raises ValueError with a clause if a span is outside the text, or has
    only a part of a word; it may leave out punctuation around words.
    """
    places = [match.span() for match in WORDS.finditer(text)]
    numbered = []
    for number, (start, end, span) in enumerate(_spans(cell), 1):
        own = [i for i, (first, last) in enumerate(places) if first < end and start < last]
        if not own or not 0 <= start < end <= len(text):
            raise ValueError(
                f"span {number} has start {start} and end {end}, but there are {len(text)} characters"
            )
        first, last = places[own[0]][0], places[own[-1]][1]
        if any(character.isalnum() for character in text[first:start] + text[end:last]):
            part, whole = text[start:end], text[first:last]
            raise ValueError(f"span {number} is {part!r}, a part of {whole!r}; expected whole words")
        numbered.append({**span, "start": own[0], "end": own[-1] + 1})
    return numbered or cell


def _spans(cell: Any) -> list[tuple[int, int, Mapping[str, Any]]]:
    """Return start, end and mapping of the spans in a cell, or nothing if it has something else."""
    try:
        return [(whole(span["start"]), whole(span["end"]), span) for span in list_items(cell)]
    except (KeyError, TypeError, ValueError):
        return []


def _counted_in_words(text: str, spans: list[Any]) -> list[tuple[int, int]] | None:
    length = len(list_items(text))
    fit = all(0 <= start < end <= length for start, end, _ in spans)
    return [(start, end) for start, end, _ in spans] if fit else None


def _counted_in_characters(text: str, cell: Any) -> list[tuple[int, int]] | None:
    try:
        return [(span["start"], span["end"]) for span in to_words(text, cell)]
    except ValueError:
        return None
