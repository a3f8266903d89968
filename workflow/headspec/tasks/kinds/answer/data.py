"""Questions, contexts and gold answers from columns of a table; exact match and F1 of predicted answers.

The prediction has the largest F1 and exact match over gold answers. The label is the score of predicting no
answer, by both metrics: 1 where there is no answer, or nothing of it counts, else 0.

Answers are compared as by the script of SQuAD (Rajpurkar et al. 2016, 2018): in lower case, without ASCII
punctuation and English articles, by words between spaces. Where words have no spaces, they are compared as
by the script of MLQA for Chinese (Lewis et al. 2020): without any punctuation, by characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
import pandas as pd

from headspec.data.sources import columns
from headspec.errors import DataError, shown
from headspec.tasks.kinds.texts.data import Texts
from headspec.text_values import as_text

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys

#: fields of an answer, as in SQuAD
TEXT, START = "text", "answer_start"
#: most characters between an answer and its place, as in scripts of transformers for SQuAD
NEAR = 2
#: most tokens of a predicted answer, as in the scripts of BERT
LONGEST = 30
#: column that tells which rows have an answer beside its place; share of these that makes data invalid
MOVED, MANY = "moved", 0.05

#: what is wrong with these answers
_BESIDE = f"is up to {NEAR} characters from its {START}, or composed otherwise"
_LONG = f"have gold answers of more than {LONGEST} words, and predictions have at most {LONGEST} tokens"
LISTS = (list, tuple, np.ndarray)
WHOLE = re.compile(r"[+-]?\d+")

Answer = tuple[str, int]


def stated(cell: Any) -> list[Answer]:
    """Return gold answers and the places of their first characters, as a cell states them.

    A cell is a list of answers, one answer, one with lists, or one of these as text. Raises ValueError with a
    clause for other cells.
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
    """Yield the text and the place of an answer, or of each answer in two lists."""
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
        raise ValueError("it has an empty answer; if there is no answer, leave the list empty")
    return value


def _start(value: Any) -> int:
    """Return a place that may be written as 29.0 or "29"."""
    if isinstance(value, bool) or not WHOLE.fullmatch(text := as_text(value)):
        raise ValueError(f"it has {shown(value)} as {START}, expected a whole number")
    return int(text)


def placed(text: str, start: int, context: str) -> Answer:
    """Return the part of a context that is an answer, and its place: `start`, or at most `NEAR` from it.

    It may be composed (NFC, NFD) or spaced otherwise. Raises ValueError with a clause if there is none.
    """
    if start >= 0 and context.startswith(text, start):
        return text, start

    def off(place: tuple[int, int]) -> int:
        """Return how far a position is from `start`, which may count characters of another normal form."""
        before = context[: place[0]]
        sizes = (len(before), len(normalize("NFC", before)), len(normalize("NFD", before)))
        return min(abs(size - start) for size in sizes)

    nearest = min(_places(text, context), key=off, default=None)
    if nearest is None or off(nearest) > NEAR:
        where = ", nor anywhere else" if nearest is None else f", but at {nearest[0]}"
        raise ValueError(f"the answer {shown(text)} is not at character {start} of the context{where}")
    return context[slice(*nearest)], nearest[0]


def _places(text: str, context: str) -> Iterator[tuple[int, int]]:
    """Yield where a text begins and ends in a context, however both are composed and spaced."""
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
    """Questions, their contexts, and gold answers as JSON, which `written` reads."""

    several = True

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        """Return rows with the column `MOVED`; DataError if a row is invalid, or a share of `MANY` moved."""
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
        """Return rows with moved answers or with only long answers, any of which deserves a warning.

        The numbers of words are left out, since long contexts are read in windows.
        """
        found = {f"have an answer that {_BESIDE}": rows[MOVED], _LONG: rows["label"].map(_is_long)}
        counts = [
            [int(wrong.sum()), [int(row) + 1 for row in wrong.index[wrong][:1]], words, 0]
            for words, wrong in found.items()
        ]
        return {"words": [], "more": counts}

    def classes(self, task: TaskKeys, labels: pd.Series) -> dict[str, Any]:
        """Return whether there are questions without an answer, so that none may be predicted."""
        return {"type": task.type, "unanswerable": bool((labels == "[]").any())}


def _moved(rows: pd.DataFrame, stored: pd.Series, where: str) -> str:
    """Return the message for answers that are too often not at their stated positions."""
    row: Any = rows[MOVED].idxmax()
    pairs = zip(stated(stored[row]), written(rows["label"][row]), strict=True)
    (text, start), (found_text, place) = next(pair for pair in pairs if pair[0] != pair[1])
    return (
        f"{rows[MOVED].sum()} of {len(rows)} rows of {where} have an answer that {_BESIDE}, such as "
        f"{shown(text)} at {start} in row {row + 1}, where the context has {shown(found_text)} at {place}; "
        f"expected this in less than {100 * MANY:g} % of rows"
    )


DATA = Questions()
