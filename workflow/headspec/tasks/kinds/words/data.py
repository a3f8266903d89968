"""Sentences and their units from columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.data.sources.columns import list_items, parse_lists
from headspec.data.sources.formats import conll
from headspec.errors import DataError, listing, shown
from headspec.tasks.data import Data
from headspec.tasks.kinds.words import units
from headspec.tasks.kinds.words.units import Units, parsed, word_task, written

if TYPE_CHECKING:
    import pandas as pd

    from headspec.tasks.keys import TaskKeys
    from headspec.tasks.parts import Classes

SHOWN = 3  # problems in a message
#: maximum share of units in an evaluated split whose labels are not in training
UNSEEN = 0.05
#: share of one-word sentences that deserves a warning
SINGLE = 0.9

#: maximum share of sentences with a blank word
MANY = 0.05

#: function that reads units from the cell of words, the words, and the cells of annotation
Reader = Callable[..., Units]


class BlankWord(ValueError):
    """A word is only white space."""


class Sentences(Data):
    """How sentences of annotated words are read."""

    def texts(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        return self.rows(frame, task, key, where).drop(columns="label")

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return sentences, words joined by spaces, with their units as labels (`units.written`).

        Sentences with a blank word are left out (`attrs` counts them), if their share is at most `MANY`.
        Raises DataError, which names the first problems, if it is larger or a sentence is invalid.
        """
        columns = self.columns(task)
        texts: dict[Any, str] = {}
        labels: dict[Any, str] = {}
        blank: list[str] = []
        problems: list[str] = []
        lines = frame.get(conll.LINE)
        try:
            stored = [parse_lists(frame[column]) for column in [task.text_a, *columns]]
            read_units = self.reader(task, stored)
        except ValueError as error:
            raise DataError(f"{key}.label: {where}: {error}") from None
        cells = zip(*stored, strict=True)
        for row, (words, *annotation) in zip(frame.index, cells, strict=True):
            try:
                sentence = _words(words)
                units = read_units(words, sentence, *annotation)
                _check_annotated(units, columns[0])
                labels[row], texts[row] = written(units), " ".join(sentence)
            except ValueError as error:
                place = f"row {row + 1}" if lines is None else f"the sentence at line {lines[row]}"
                (blank if isinstance(error, BlankWord) else problems).append(f"{place}: {error}")
        if problems or len(blank) > MANY * len(frame):
            problems += blank
            more = "; ..." if len(problems) > SHOWN else ""
            raise DataError(
                f"{key}.label: {len(problems)} of {len(frame)} sentences of {where} have no {task.type} in "
                f"{listing(columns)}: {'; '.join(problems[:SHOWN])}{more}"
            )
        read = pd.DataFrame({"text_a": texts, "text_b": None, "label": labels}, index=[*texts])
        read.attrs |= {"blank": len(blank)} if blank else {}
        return read

    def reader(self, task: TaskKeys, stored: Sequence[pd.Series]) -> Reader:
        """Return a function that reads the units of a sentence; ValueError if columns are ambiguous.

        `stored` are the columns of words and of annotation.
        """
        read_units = word_task(task.type).units
        return lambda cell, words, *annotation: read_units(words, *annotation)

    def distinct(self, labels: pd.Series) -> list[str]:
        return label_names(labels)

    def classes(self, task: TaskKeys, labels: pd.Series) -> dict[str, Any]:
        return {"type": task.type, "labels": label_names(labels)}

    def tally(self, labels: pd.Series) -> Counter[str]:
        return Counter(unit[-1] for annotation in labels for unit in parsed(annotation))

    def row_quality(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Return the number of one-word sentences, which suggest a file with one word per line."""
        single = ~rows["text_a"].str.contains(" ", regex=False)
        first = [int(row) + 1 for row in single.index[single][:1]]
        words = f"are sentences of one word; a file with a word in each line ends in {conll.COLUMNS}"
        return {"more": [[int(single.sum()), first, words, SINGLE]]}

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        """Raise DataError if training lacks the labels of more than `UNSEEN` of the units."""
        assert isinstance(classes, dict)
        known = {*classes["labels"]}
        sentences = zip(labels.index.tolist(), labels, strict=True)
        units = [(row, unit[-1]) for row, annotation in sentences for unit in parsed(annotation)]
        unseen = [(row, label) for row, label in units if label not in known]
        if len(unseen) > UNSEEN * len(units):
            others = listing(sorted({label for _, label in unseen}), 5)
            raise DataError(
                f"{key}: {len(unseen)} of {len(units)} units of {where} have labels that training does not "
                f"have, such as {others}, first in row {unseen[0][0] + 1}; the labels of training are "
                f"{listing(sorted(known), 10)}"
            )


def _check_annotated(units: Units, column: str) -> None:
    """Raise ValueError if a tag is CoNLL-U's underscore for missing values, which is valid in `feats`."""
    missing = [unit[0] for unit in units if unit[-1] == "_"] if column in conll.REQUIRED else []
    if missing:
        raise ValueError(f"word {missing[0] + 1} has no tag")


def _words(cell: Any) -> list[str]:
    words = list_items(cell)
    if not words:
        raise ValueError("it has no words")
    for number, word in enumerate(words, 1):
        if not isinstance(word, str) or not word.strip():
            blank = all(isinstance(each, str) for each in words)
            raise (BlankWord if blank else ValueError)(f"word {number} is {shown(word)}, expected text")
    return ["\u00a0".join(word.split()) for word in words]  # a space would end the word


def label_names(annotations: Iterable[str]) -> list[str]:
    """Return the labels of units, sorted."""
    return sorted({unit[-1] for annotation in annotations for unit in parsed(annotation)})


DATA = Sentences()


class Tags(Sentences):
    least = "two tags"


TAGS_DATA = Tags()


class Spans(Sentences):
    """Sentences with typed spans."""

    def reader(self, task: TaskKeys, stored: Sequence[pd.Series]) -> Reader:
        by_words = super().reader(task, stored)
        if not units.in_characters(*stored):
            return by_words

        def by_characters(text: Any, words: Sequence[str], spans: Any) -> Units:
            return by_words(text, words, units.to_words(text, spans) if isinstance(text, str) else spans)

        return by_characters


SPANS_DATA = Spans()
