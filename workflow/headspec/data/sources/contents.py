"""Rows of a local source."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from headspec import text_files
from headspec.data.sources.formats import conll, delimited, registry
from headspec.data.sources.formats.options import Options
from headspec.data.sources.split_files import SplitFiles
from headspec.errors import DataError, listing, nearest
from headspec.tasks import data

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: formats with a header line, and formats that are not text
HEADERS, BINARY = (".csv", ".tsv"), (".parquet",)
INDEX = "idx"  # column with the row numbers of an unlabelled split, as in GLUE on the hub
LONGEST = 40  # characters of a name in a message; without a header line, the name may be a text


def read_rows(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    """Return the columns of a split that a task uses, as `readers.read_split`."""
    check_options(task, key, held.name, text_files.ending(held.files[0]))
    return READERS[held.kind](task, key, held, labelled)


def check_options(task: Task, key: str, name: str, ending: str) -> None:
    """Raise DataError if the config has a key that does not fit the format of a file."""
    for setting in ("columns", "delimiter"):
        if getattr(task, setting) and ending not in HEADERS:
            raise DataError(
                f"{key}.{setting}: has no effect on {name}, only on {listing(HEADERS)}; expected none"
            )
    if task.encoding and ending in BINARY:
        raise DataError(f"{key}.encoding: has no effect on {name}, which is no text; expected none")


def options(task: Task, key: str) -> Options:
    """Return how to read the tables of a task."""
    texts = tuple(column for column in (task.text_a, task.text_b) if column)
    return Options(f"{key}.source", task.encoding, task.columns, task.delimiter, texts)


def needed_columns(
    task: Task,
    key: str,
    present: Iterable[str],
    name: str,
    labelled: bool = True,
    advice: Callable[[list[str], set[str]], str] | None = None,
) -> list[str]:
    """Return the columns to read, which must be `present`; `advice` says why a first line lacks them."""
    present = list(present)
    wanted = [(f"{key}.text_a", task.text_a)]
    if task.text_b is not None:
        wanted.append((f"{key}.text_b", task.text_b))
    if labelled:
        wanted += [(f"{key}.label", column) for column in data.reader(task.type).columns(task)]
        wanted += [(key, conll.LINE)] if conll.LINE in present else []
        wanted += [(f"{key}.filter", column) for column in task.filter]
    elif INDEX in present:
        wanted.append((key, INDEX))
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 4]} ..." for name in present]
    names = {column for _, column in wanted}
    hint = advice(present, names) if advice and not names & {*present} else ""
    missing = [
        f"{where}: no column '{column}' in {name}; it has {listing(shown)}.{hint or nearest(column, present)}"
        for where, column in wanted
        if column not in present
    ]
    if missing:
        raise DataError("\n".join(missing))
    return list(dict.fromkeys(column for _, column in wanted))


def _tables(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    file, read_as = held.files[0], options(task, key)
    header = text_files.ending(file) in HEADERS and not task.columns
    advice = functools.partial(delimited.advice, path=file, options=read_as) if header else None
    choice = functools.partial(needed_columns, task, key, name=held.name, labelled=labelled, advice=advice)
    return registry.table(held.files, choice, read_as)


def _parallel(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    """Return a column from the lines of each file that a task uses."""
    by_column = {text_files.ending(file)[1:]: file for file in held.files}
    names = needed_columns(task, key, by_column, held.name, labelled)
    lines = {name: _lines(by_column[name], task, key) for name in names}
    if len({*map(len, lines.values())}) > 1:
        counts = listing(f"{by_column[name].name} {len(column)}" for name, column in lines.items())
        raise DataError(f"{key}.source: parallel files have different numbers of lines: {counts}")
    return pd.DataFrame(lines, dtype="str")


def _class_folders(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    names = needed_columns(task, key, ("text", "label"), held.name, labelled)
    # a byte in another encoding in one of many files should not refuse all, unless the config names one
    errors = "strict" if task.encoding else "replace"
    texts = [_text(file, task, key, errors).replace("\r\n", "\n").strip() for file in held.files]
    labels = [file.parent.name for file in held.files]
    return pd.DataFrame({"text": texts, "label": labels}, dtype="str")[names]


def _class_files(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    names = needed_columns(task, key, ("text", "label"), held.name, labelled)
    by_class = {text_files.uncompressed(file).stem: _lines(file, task, key) for file in held.files}
    rows = [(line, name) for name, lines in by_class.items() for line in lines]
    return pd.DataFrame(rows, columns=["text", "label"], dtype="str")[names]


READERS = {"tables": _tables, "columns": _parallel, "folders": _class_folders, "classes": _class_files}


def _lines(file: Path, task: Task, key: str) -> list[str]:
    return text_files.lines(_text(file, task, key), f"{key}.source: {file.parent.name}/{file.name}")


def _text(file: Path, task: Task, key: str, errors: str = "strict") -> str:
    """Return the text of a file, with its line ends."""
    try:
        text = text_files.read_text(file, f"{key}.source", task.encoding, errors)
    except OSError as error:
        raise DataError(f"{key}.source: {file.parent.name}/{file.name} cannot be read ({error})") from None
    if "\0" in text:
        raise DataError(f"{key}.source: {file.parent.name}/{file.name} is no text: it has a NUL character")
    return text
