"""Sentences and their units from the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.data.sources.cells import list_items, parse_lists
from headspec.data.sources.formats import conll
from headspec.errors import DataError, listing, shown
from headspec.tasks.words.base import Units, WordTask, parsed, written

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

SHOWN = 3  # problems in a message
#: largest share of the units of an evaluated split that may have labels which training does not have
UNSEEN = 0.05


def rows(kind: WordTask, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """The sentences of a split, with their units as labels.

    Returns
    -------
    DataFrame
        Columns text_a: words, joined by spaces; text_b: None; label: units as `base.written`.

    Raises
    ------
    DataError
        Sentences without words, or whose cells are no such annotation.
    """
    columns = [task.label] if isinstance(task.label, str) else list(task.label)
    texts, labels, problems = [], [], []
    lines = frame.get(conll.LINE)
    try:
        stored = [parse_lists(frame[column]) for column in [task.text_a, *columns]]
    except ValueError as error:
        raise DataError(f"{key}.label: {where}: {error}") from None
    cells_of = zip(*stored, strict=True)
    for row, (words, *cells) in zip(frame.index, cells_of, strict=True):
        try:
            of_sentence = _words(words)
            units = kind.units(of_sentence, *cells)
            _check_annotated(units, columns[0])
            labels.append(written(units))
            texts.append(" ".join(of_sentence))
        except ValueError as error:
            place = f"row {row + 1}" if lines is None else f"the sentence at line {lines[row]}"
            problems.append(f"{place}: {error}")
    if problems:
        more = "; ..." if len(problems) > SHOWN else ""
        raise DataError(
            f"{key}.label: {len(problems)} of {len(frame)} sentences of {where} have no {task.type} in "
            f"{listing(columns)}: {'; '.join(problems[:SHOWN])}{more}"
        )
    return pd.DataFrame({"text_a": texts, "text_b": None, "label": labels}, index=frame.index)


def _check_annotated(units: Units, column: str) -> None:
    """ValueError if a tag is an underscore in a column where CoNLL-U has one for words without annotation.

    In other columns, such as `feats`, it says that there is nothing to say, which is a tag as any other.
    """
    missing = [unit[0] for unit in units if unit[-1] == "_"] if column in conll.REQUIRED else []
    if missing:
        raise ValueError(f"word {missing[0] + 1} has no tag")


def _words(cell: Any) -> list[str]:
    words = list_items(cell)
    if not words:
        raise ValueError("it has no words")
    for number, word in enumerate(words, 1):
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"word {number} is {shown(word)}, expected text")
    return ["\u00a0".join(word.split()) for word in words]  # a space would end the word


def label_names(annotations: Iterable[str]) -> list[str]:
    """The labels of units, sorted."""
    return sorted({unit[-1] for annotation in annotations for unit in parsed(annotation)})


def check_labels(annotations: pd.Series, valid: Iterable[str], key: str, where: str) -> None:
    """DataError if more than `UNSEEN` of the units have labels that are not `valid`."""
    known = set(valid)
    sentences = zip(annotations.index.tolist(), annotations, strict=True)
    labels = [(row, unit[-1]) for row, annotation in sentences for unit in parsed(annotation)]
    unseen = [(row, label) for row, label in labels if label not in known]
    if len(unseen) > UNSEEN * len(labels):
        others = listing(sorted({label for _, label in unseen}), 5)
        raise DataError(
            f"{key}: {len(unseen)} of {len(labels)} units of {where} have labels that training does not "
            f"have, such as {others}, first in row {unseen[0][0] + 1}; those of training are "
            f"{listing(sorted(known), 10)}"
        )
