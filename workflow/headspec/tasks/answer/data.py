"""Questions, contexts and gold answers from columns of a table."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.errors import DataError, shown
from headspec.tasks.data import Data

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: fields of an answer, as in SQuAD
TEXT, START = "text", "answer_start"

Answer = tuple[str, int]


def answers(cell: Any, context: str) -> list[Answer]:
    """Return gold answers and the places of their first characters, from a list, a mapping of lists, or JSON.

    Raise ValueError with a clause for other cells, or an answer that is not at its place.
    """
    found = _listed(_parsed(cell) if isinstance(cell, str) else cell)
    for text, start in found:
        if not text.strip():
            raise ValueError("it has an empty answer; expected none in the list where there is no answer")
        if start < 0 or context[start : start + len(text)] != text:
            where = _elsewhere(text, start, context)
            raise ValueError(f"the answer {shown(text)} is not at character {start} of the context{where}")
    return found


def _parsed(cell: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise ValueError(f"it has {shown(cell)}, expected answers as JSON")


def _listed(cell: Any) -> list[Answer]:
    if isinstance(cell, Mapping) and {TEXT, START} <= {*cell}:
        texts, starts = (_items(cell[name], name) for name in (TEXT, START))
        if len(texts) != len(starts):
            raise ValueError(f"it has {len(texts)} texts of answers and {len(starts)} places")
        pairs = list(zip(texts, starts, strict=True))
    elif isinstance(cell, (list, tuple, np.ndarray)):
        if wrong := [each for each in cell if not isinstance(each, Mapping) or not {TEXT, START} <= {*each}]:
            raise ValueError(f"it has {shown(wrong[0])}, expected {TEXT} and {START}")
        pairs = [(each[TEXT], each[START]) for each in cell]
    else:
        raise ValueError(f"it has {shown(cell)}, expected a list, empty where there is no answer")
    for text, start in pairs:
        if not isinstance(text, str) or isinstance(start, bool) or not isinstance(start, (int, np.integer)):
            raise ValueError(f"it has {shown((text, start))}, expected a text and a whole number")
    return [(text, int(start)) for text, start in pairs]


def _items(cell: Any, name: str) -> list[Any]:
    if not isinstance(cell, (list, tuple, np.ndarray)):
        raise ValueError(f"it has {shown(cell)} as {name}, expected a list")
    return list(cell)


def _elsewhere(text: str, start: int, context: str) -> str:
    """Describe where an answer is that is not at `start`: at the nearest of its places."""
    places = [place for place in range(len(context)) if context.startswith(text, place)]
    if not places:
        return ", nor anywhere else"
    return f", but at {min(places, key=lambda place: abs(place - start))}"


def written(label: str) -> list[Answer]:
    """Return the gold answers in the label of a table 'data'."""
    return [(text, start) for text, start in json.loads(label)]


class Questions(Data):
    """Questions, their contexts, and gold answers as JSON, which `written` reads."""

    several = True

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        texts, labels = self.texts(frame, task, key, where), {}
        for row, cell, context in zip(frame.index, frame[str(task.label)], texts["text_b"], strict=True):
            try:
                found = answers(cell, context)
            except ValueError as error:
                number = int(str(row)) + 1
                raise DataError(f"{key}.label: row {number} of {where} is wrong: {error}") from None
            labels[row] = json.dumps(found, ensure_ascii=False)
        return texts.assign(label=pd.Series(labels, index=frame.index, dtype=object))

    def row_quality(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Leave out the numbers of words, since long contexts are read in windows."""
        return {"words": []}

    def classes(self, task: Task, labels: pd.Series) -> dict[str, Any]:
        """Return whether there are questions without an answer, so that none may be predicted."""
        return {"type": task.type, "unanswerable": bool((labels == "[]").any())}


DATA = Questions()
