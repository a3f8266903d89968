"""Questions, contexts and gold answers from columns of a table; exact match and F1 of predicted answers.

Predictions hold the largest F1 and exact match over gold answers, labels the scores of predicting no answer:
1 if there is none, or nothing in it counts, else 0.

Answers are compared as in SQuAD's script (Rajpurkar et al. 2016, 2018): in lower case, without ASCII
punctuation and English articles, by words between spaces. Where words have no spaces, they are compared as in
MLQA's script for Chinese (Lewis et al. 2020): without any punctuation, by characters.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import regex
from numpy.typing import NDArray

from headspec.config.values import as_text
from headspec.data import characters
from headspec.data.sources import columns
from headspec.errors import DataError, shown
from headspec.tasks.kinds.texts.data import Texts
from headspec.tasks.metrics import Metric, mean, taken

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: fields of an answer, as in SQuAD
TEXT, START = "text", "answer_start"
#: maximum offset of an answer from its place, in characters, as in transformers' scripts for SQuAD
NEAR = 2
#: maximum length of a predicted answer, in tokens, as in BERT's scripts
LONGEST = 30
#: column that marks rows with a misplaced answer, and the share of them from which data are refused
MOVED, MANY = "moved", 0.05

#: what is wrong with these answers
_BESIDE = f"is up to {NEAR} characters from its {START}, or uses another Unicode normalisation"
_LONG = f"have gold answers of more than {LONGEST} words, and predictions have at most {LONGEST} tokens"
LISTS = (list, tuple, np.ndarray)
WHOLE = re.compile(r"[+-]?\d+")

Answer = tuple[str, int]


def stated(cell: Any) -> list[Answer]:
    """Return the gold answers in a cell, and the positions of their first characters.

    A cell is a list of answers, a single answer, one with lists, or any of these as text. Raise ValueError
    with a clause for other cells.
    """
    if isinstance(cell, str):
        try:
            cell = columns.literal(cell)
        except ValueError:
            raise ValueError(f"it has {shown(cell)}, expected answers as JSON") from None
    several = [cell] if isinstance(cell, Mapping) else cell
    if not isinstance(several, LISTS):
        raise ValueError(f"it has {shown(cell)}, expected a list, empty where there is no answer")
    return [(_text(text), _start(start)) for each in several for text, start in _pairs(each)]


def _pairs(cell: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the text and position of an answer, or of each answer in two lists."""
    if not isinstance(cell, Mapping) or not {TEXT, START} <= {*cell}:
        raise ValueError(f"it has {shown(cell)}, expected {TEXT} and {START}")
    texts, starts = (
        [*cell_item] if isinstance(cell_item, LISTS) else [cell_item]
        for cell_item in (cell[TEXT], cell[START])
    )
    if len(texts) != len(starts):
        raise ValueError(f"it has {len(texts)} texts of answers and {len(starts)} places")
    yield from zip(texts, starts, strict=True)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"it has {shown(value)}, expected the text of an answer")
    if not value.strip():
        raise ValueError("it has an empty answer; expected none in the list where there is no answer")
    return value


def _start(value: Any) -> int:
    """Return a position that may be written as 29.0 or "29"."""
    if isinstance(value, bool) or not WHOLE.fullmatch(text := as_text(value)):
        raise ValueError(f"it has {shown(value)} as {START}, expected a whole number")
    return int(text)


def placed(text: str, start: int, context: str) -> Answer:
    """Return the part of a context that is an answer, and its position, at most `NEAR` from `start`.

    Its Unicode normalisation (NFC, NFD) may differ. Raise ValueError with a clause if there is none.
    """
    if start >= 0 and context.startswith(text, start):
        return text, start

    def off(place: tuple[int, int]) -> int:
        """Distance of a position from `start`, which may be in characters of another normal form."""
        before = context[: place[0]]
        sizes = (len(before), len(normalize("NFC", before)), len(normalize("NFD", before)))
        return min(abs(size - start) for size in sizes)

    nearest = min(_places(text, context), key=off, default=None)
    if nearest is None or off(nearest) > NEAR:
        where = ", nor anywhere else" if nearest is None else f", but at {nearest[0]}"
        raise ValueError(f"the answer {shown(text)} is not at character {start} of the context{where}")
    return context[slice(*nearest)], nearest[0]


def _places(text: str, context: str) -> Iterator[tuple[int, int]]:
    """Yield where a text starts and ends in a context, whatever the normalisation and spacing of both."""
    edges, size = {0: 0}, 0
    for end, character in enumerate(context, 1):
        size += len(_form(character))
        edges[size] = end
    form, wanted = _form(context), _form(text)
    place = form.find(wanted)
    while place >= 0:
        if place in edges and place + len(wanted) in edges:
            yield edges[place], edges[place + len(wanted)]
        place = form.find(wanted, place + 1)


def _form(text: str) -> str:
    return re.sub(r"\s", " ", normalize("NFD", text))


def written(label: str) -> list[Answer]:
    """Return the gold answers in the label of a table 'data'."""
    return [(text, start) for text, start in json.loads(label)]


def _is_long(label: str) -> bool:
    """Return whether all gold answers have more words between spaces than predictions have tokens."""
    answers = written(label)
    return bool(answers) and all(len(text.split()) > LONGEST for text, _ in answers)


class Questions(Texts):
    """Questions, contexts, and gold answers as JSON, to be read by `written`."""

    several = True

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        """Return rows with a further column, `MOVED`; DataError if the share of moved rows reaches `MANY`."""
        texts, labels, moved = self.texts(frame, task, key, where), {}, {}
        for row, cell, context in zip(frame.index, frame[str(task.label)], texts["text_b"], strict=True):
            try:
                given = stated(cell)
                answers = [placed(*answer, context) for answer in given]
            except ValueError as error:
                number = int(str(row)) + 1
                raise DataError(f"{key}.label: row {number} of {where} is wrong: {error}") from None
            labels[row] = json.dumps(answers, ensure_ascii=False)
            moved[row] = answers != given
        rows = texts.assign(**{"label": pd.Series(labels, dtype=object), MOVED: pd.Series(moved, dtype=bool)})
        if rows[MOVED].sum() >= max(1, MANY * len(rows)):
            raise DataError(f"{key}.label: {_moved(rows, frame[str(task.label)], where)}")
        return rows

    def row_quality(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Return rows with moved answers, or only long ones, any of which deserves a warning.

        Omit the numbers of words, since long contexts are read in windows.
        """
        found = {f"have an answer that {_BESIDE}": rows[MOVED], _LONG: rows["label"].map(_is_long)}
        counts = [
            [int(wrong.sum()), [int(row) + 1 for row in wrong.index[wrong][:1]], words, 0]
            for words, wrong in found.items()
        ]
        return {"words": [], "more": counts}

    def classes(self, task: Task, labels: pd.Series) -> dict[str, Any]:
        """Return whether there are questions without an answer, so that no answer may be predicted."""
        return {"type": task.type, "unanswerable": bool((labels == "[]").any())}


def _moved(rows: pd.DataFrame, stored: pd.Series, where: str) -> str:
    """Return the message for too many misplaced answers."""
    row: Any = rows[MOVED].idxmax()
    pairs = zip(stated(stored[row]), written(rows["label"][row]), strict=True)
    (text, start), (found_text, place) = next(pair for pair in pairs if pair[0] != pair[1])
    return (
        f"{rows[MOVED].sum()} of {len(rows)} rows of {where} have an answer that {_BESIDE}, such as "
        f"{shown(text)} at {start} in row {row + 1}, where the context has {shown(found_text)} at {place}; "
        f"expected this in less than {100 * MANY:g} % of rows"
    )


DATA = Questions()


Floats = NDArray[np.float64]


def _none(label: Floats) -> Floats:
    """Predict no answer to every question, since no text would answer many."""
    return np.repeat(label, 2, axis=-1)


METRICS = {
    "answer_f1": Metric("F1 of answers", partial(taken, 0), mean, _none, several=True),
    "answer_exact_match": Metric("exact match of answers", partial(taken, 1), mean, _none, several=True),
}


#: function that splits an answer into the words that count
Split = Callable[[str], list[str]]

#: removed from answers before comparison
PUNCTUATION, ARTICLES = str.maketrans("", "", string.punctuation), re.compile(r"\b(a|an|the)\b")
#: removed from answers if words have no spaces
MARKS = regex.compile(rf"[\p{{P}}{re.escape(string.punctuation)}]")
#: a letter of a script without spaces, with its marks, or a run of other characters
CHARACTERS = regex.compile(
    rf"(?V1)(?<letter>[[{characters.UNSPACED}\p{{scx=Han}}\p{{scx=Katakana}}]&&[\p{{L}}\p{{N}}]]\p{{M}}*)"
    r"|(?:(?!(?&letter))\S)+"
)


def by_words(text: str) -> list[str]:
    """Split an answer into words at spaces, in lower case, without punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def by_characters(text: str) -> list[str]:
    """Split an answer into letters of scripts without spaces, and words of other scripts."""
    return [match[0] for match in CHARACTERS.finditer(MARKS.sub("", text.lower()))]


def split_for(context: str) -> Split:
    """Return how to split answers from a context; Korean words have spaces."""
    return by_words if characters.unspaced([context]) in (None, "ko") else by_characters


def agreement(prediction: str, golds: Sequence[str], split: Split = by_words) -> tuple[float, float]:
    """Return F1 and exact match of an answer, each the maximum over gold answers; empty means no answer."""
    units = split(prediction)
    expected = [words for gold in golds if (words := split(gold))] or [[]]
    return max(_f1(units, words) for words in expected), float(units in expected)


def _f1(predicted: list[str], expected: list[str]) -> float:
    if not predicted or not expected:
        return float(predicted == expected)
    same = (Counter(predicted) & Counter(expected)).total()
    return 2 * same / (len(predicted) + len(expected))
