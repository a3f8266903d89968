"""All columns of a file of examples, and the keys of a task with which studies read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from headspec.config.sections.task import Task
from headspec.data.sources import readers, text_files
from headspec.data.sources.entries import TRAIN, SplitFiles
from headspec.data.sources.formats import delimited, dialects, registry
from headspec.data.sources.split_files import match_split
from headspec.errors import DataError


def training_files(source: str) -> SplitFiles:
    """Return the files of the training split of a source; raise DataError, naming it, if there are none."""
    present = readers.local_splits(Task(source=source), source)
    if (split := match_split(TRAIN, present)) is None:
        raise DataError(readers.no_split(source, TRAIN, list(present)))
    return present[split]


def dialect(held: SplitFiles, source: str) -> dict[str, Any]:
    """Return the keys `delimiter` and `columns` that ending and first line of a CSV or TSV file do not tell.

    The delimiter is the first usual one with several columns in all rows. The first line is no header if a
    cell of it recurs in its column, or is a number, unless the line numbers the columns.
    """
    file = held.files[0]
    if text_files.ending(file) not in readers.HEADERS:
        return {}
    text = text_files.read_text(file, source)
    usual = delimited.TAB if text_files.ending(file) == ".tsv" else ","
    for delimiter in dict.fromkeys((usual, *delimited.USUAL)):
        quoted = text_files.ending(file) != ".tsv" or delimiter != delimited.TAB
        rows = dialects.rows(text, delimiter, quoted)
        if not rows.problem and rows.cells and len(rows.cells[0]) > 1:
            keys: dict[str, Any] = {} if delimiter == usual else {"delimiter": delimiter}
            first, *others = rows.cells
            if _is_row(first, others):
                keys["columns"] = [f"column{place}" for place in range(1, len(first) + 1)]
            return keys
    return {}


def _is_row(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is a row like the others."""
    cells = [cell.strip() for cell in first]
    if cells == [*map(str, range(len(cells)))]:
        return False
    below = [{row[place].strip() for row in others} for place in range(len(cells))]
    return any(
        cell and (cell in column or _is_number(cell)) for cell, column in zip(cells, below, strict=True)
    )


def _is_number(cell: str) -> bool:
    return bool(pd.notna(pd.to_numeric(cell, errors="coerce")))


def columns(held: SplitFiles, source: str, keys: dict[str, Any]) -> pd.DataFrame:
    """Return all columns of a table that have a name of their own; CSV and TSV as text."""
    options = readers.options(Task(source=source, **keys), source, held.part)
    return registry.table(
        held.files,
        lambda present: [name for name in present if name.strip() and present.count(name) == 1],
        options,
    )
