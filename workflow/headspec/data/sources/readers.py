"""The stored columns of a task's source.

A source is ``package:<import name>/<path>`` (data in an installed package),
``hub:<owner>/<name>@<revision>`` (the Hugging Face hub), or a local path: a table in a format of
`formats.registry`, or a folder as `split_files` takes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from headspec.config.sources import distribution, locate
from headspec.data.sources import split_files, text_files
from headspec.data.sources.columns import matching, numbered
from headspec.data.sources.entries import VALIDATION, SplitFiles
from headspec.data.sources.formats import conll, delimited, registry
from headspec.data.sources.formats.options import Options
from headspec.data.sources.hub import hub_dataset
from headspec.errors import DataError, listing, nearest
from headspec.provenance import user_files
from headspec.tasks import data

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


#: formats with a header line, and formats that are not text
HEADERS, BINARY = (".csv", ".tsv"), (".parquet",)
INDEX = "idx"  # column with the row numbers of an unlabelled split, as in GLUE on the hub
LONGEST = 40  # characters of a name in a message; without a header line, the name may be a text


def read_rows(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    """Return the columns of a local split that a task uses, as `read_split`, with the config's names."""
    check_options(task, key, held.name, text_files.ending(held.files[0]))
    frame = READERS[held.layout](task, key, held, labelled)
    present = [*map(str, frame)]
    wanted = {column: matching(column, present) for _, column in _wanted(task, key, labelled, present)}
    return frame.rename(columns={name: column for column, name in wanted.items() if name is not None})


def check_options(task: Task, key: str, name: str, ending: str) -> None:
    """Raise DataError if the config has a key that does not fit the format of a file."""
    for setting in ("columns", "delimiter"):
        if getattr(task, setting) and ending not in HEADERS:
            raise DataError(
                f"{key}.{setting}: has no effect on {name}, only on {listing(HEADERS)}; remove it"
            )
    if task.encoding and ending in BINARY:
        raise DataError(f"{key}.encoding: has no effect on {name}, which is not text; remove it")


def options(task: Task, key: str, part: str | None = None) -> Options:
    """Return how to read the tables of a task; `part` is that of `SplitFiles`."""
    texts = tuple(column for column in (task.text_a, task.text_b) if column)
    return Options(f"{key}.source", task.encoding, task.columns, task.delimiter, texts, part)


def needed_columns(
    task: Task,
    key: str,
    present: Iterable[str],
    name: str,
    labelled: bool = True,
    advice: Callable[[list[str], set[str]], str] | None = None,
) -> list[str]:
    """Return the columns to read; `advice` explains why a first line lacks all of them.

    Raises DataError if a column is not `present`.
    """
    present = list(present)
    wanted = _wanted(task, key, labelled, present)
    found = {column: matching(column, present) for _, column in wanted}
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 4]} ..." for name in present]
    hint = advice(present, {*found}) if advice and not any(found.values()) else ""
    named = [column for column in present if not column.startswith("#")]
    missing = [
        f"{where}: no column '{column}' in {name}; it has {listing(shown)}."
        f"{hint or numbered(named, where) or nearest(column, named)}"
        for where, column in wanted
        if found[column] is None
    ]
    if missing:
        raise DataError("\n".join(missing))
    return [name for name in found.values() if name is not None]


def _wanted(task: Task, key: str, labelled: bool, present: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns that a task uses, each with the key that names it."""
    wanted = [(f"{key}.text_a", task.text_a)]
    if task.text_b is not None:
        wanted.append((f"{key}.text_b", task.text_b))
    if labelled:
        wanted += [(f"{key}.label", column) for column in data.reader(task.type).columns(task)]
        wanted += [(key, conll.LINE)] if conll.LINE in present else []
        wanted += [(f"{key}.filter", column) for column in task.filter]
    elif INDEX in present:
        wanted.append((key, INDEX))
    return wanted


def _tables(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    file, read_as = held.files[0], options(task, key, held.part)
    header = text_files.ending(file) in HEADERS and not task.columns
    advice = functools.partial(delimited.advice, path=file, options=read_as) if header else None
    choice = functools.partial(needed_columns, task, key, name=held.name, labelled=labelled, advice=advice)
    return registry.table(held.files, choice, read_as)


def _parallel(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    """Return a column for the lines of each file that a task uses."""
    by_column = {text_files.ending(file)[1:]: file for file in held.files}
    names = needed_columns(task, key, by_column, held.name, labelled)
    lines = {name: _lines(by_column[name], task, key) for name in names}
    if len({*map(len, lines.values())}) > 1:
        counts = listing(f"{by_column[name].name} {len(column)}" for name, column in lines.items())
        raise DataError(f"{key}.source: parallel files have different numbers of lines: {counts}")
    return pd.DataFrame(lines, dtype="str")


def _class_folders(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    present = ("text", "label") if held.layout == "folders" else ("text",)
    names = needed_columns(task, key, present, held.name, labelled)
    # unless the config names an encoding, a wrong byte in one of many files should not refuse them all
    errors = "strict" if task.encoding else "replace"
    texts = [_text(file, task, key, errors).replace("\r\n", "\n").strip() for file in held.files]
    labels = [file.parent.name for file in held.files]
    return pd.DataFrame({"text": texts, "label": labels}, dtype="str")[names]


def _class_files(task: Task, key: str, held: SplitFiles, labelled: bool) -> pd.DataFrame:
    names = needed_columns(task, key, ("text", "label"), held.name, labelled)
    by_class = {text_files.uncompressed(file).stem: _lines(file, task, key) for file in held.files}
    rows = [(line, name) for name, lines in by_class.items() for line in lines]
    return pd.DataFrame(rows, columns=["text", "label"], dtype="str")[names]


READERS = {"tables": _tables, "columns": _parallel, "classes": _class_files}
READERS |= dict.fromkeys(("folders", "texts"), _class_folders)


def _lines(file: Path, task: Task, key: str) -> list[str]:
    return text_files.lines(_text(file, task, key), f"{key}.source: {file.parent.name}/{file.name}")


def _text(file: Path, task: Task, key: str, errors: str = "strict") -> str:
    """Return the text of a file, keeping its line endings."""
    try:
        text = text_files.read_text(file, f"{key}.source", task.encoding, errors)
    except OSError as error:
        raise DataError(f"{key}.source: {file.parent.name}/{file.name} cannot be read ({error})") from None
    if "\0" in text:
        raise DataError(f"{key}.source: {file.parent.name}/{file.name} is not text: it has a NUL character")
    return text


def splits(task: Task, key: str) -> list[str]:
    """Return the names of the splits in the task's source; a single table is the training split."""
    if _is_hub(task):
        return list(hub_dataset(task.source, task.subset, f"{key}.source"))
    return list(local_splits(task, key))


def local_splits(task: Task, key: str) -> dict[str, SplitFiles]:
    """Return the files of each split of a source that is not on the hub."""
    labels = [task.label] if isinstance(task.label, str) else task.label
    columns = {column for column in (task.text_a, task.text_b, *labels) if column}
    path = locate(str(task.source), f"{key}.source")
    return split_files.find_splits(path, f"{key}.source", task.train_split, columns)


def validation_split(task: Task, key: str, present: list[str]) -> str | None:
    """Return the name of the validation split among those `present`, or None.

    Raises DataError if the default split has several usual names, or a configured one is missing.
    """
    wanted, where = task.validation_split, f"{key}.validation_split"
    if wanted is None:
        return None
    split = split_files.match_validation(wanted, present, where, {task.train_split, *task.further.values()})
    if split is None and wanted != VALIDATION[0]:
        raise DataError(no_split(where, wanted, present))
    return split


def no_split(key: str, split: object, present: list[str]) -> str:
    """Return the message for a source that lacks a split."""
    return f"{key}: no split '{split}' in the source; it has {listing(present)}.{nearest(split, present)}"


def split_names(task: Task, key: str) -> dict[str, str]:
    """Return names in messages (`name_of`) of labelled splits: train, validation if stored, further ones."""
    present = splits(task, key)
    wanted = {"train": task.train_split, "validation": validation_split(task, key, present)}
    names = {
        split: name_of(task, split_files.match_split(stored, present) or stored)
        for split, stored in wanted.items()
        if stored
    }
    further = {split: with_subset(task, stored) for split, stored in task.further.items()}
    return names | {split: name_of(*stored) for split, stored in further.items()}


def notes(task: Task, key: str) -> list[str]:
    """Return a line for each fact about the splits of a source that the config does not state."""
    present = splits(task, key)
    match, wanted = validation_split(task, key, present), task.validation_split
    others = [split for split in present if split != split_files.match_split(task.train_split, present)]
    lines = []
    if match and match.casefold() != str(wanted).casefold():
        lines.append(f"{key}: '{match}' is its validation split")
    elif wanted and not match and others:
        lines.append(
            f"{key}: a part of '{task.train_split}' is held out for validation; the source also has "
            f"{listing(others)}: to validate on one, name it in {key}.validation_split"
        )
    if not _is_hub(task):
        lines += [f"{key}: {note}" for held in local_splits(task, key).values() for note in held.notes]
    return lines


def with_subset(task: Task, split: str) -> tuple[Task, str]:
    """Resolve ``<subset>/<split>`` of a hub data set into task and split; leave other splits unchanged."""
    subset, slash, name = split.rpartition("/")
    return (task.model_copy(update={"subset": subset}), name) if slash and _is_hub(task) else (task, split)


def read_split(task: Task, key: str, split: str, labelled: bool = True) -> pd.DataFrame:
    """Return the columns of texts, label and filter of a split, unconverted, one row per stored row.

    Class indices of a hub data set become class names. If not `labelled`, read the texts and the column idx.
    Raises DataError if data are missing, unreadable or empty, or lack a column.
    """
    if _is_hub(task):
        check_options(task, key, str(task.source), BINARY[0])
        frame = _read_hub(task, key, split, labelled)
    else:
        frame = read_rows(task, key, _held(task, key, split), labelled)
    if frame.empty:
        raise DataError(f"{key}.source: {name_of(task, split)} has no rows")
    return frame


def _held(task: Task, key: str, split: str) -> SplitFiles:
    present = local_splits(task, key)
    return present[split_files.match_split(split, present) or split]


def name_of(task: Task, split: str) -> str:
    """Return the name of a split in messages: a file, a folder, or the split of a hub data set."""
    return f"{task.source} ({split})" if _is_hub(task) else _held(task, "tasks", split).name


def files(task: Task, *more: str, key: str = "tasks") -> list[Path]:
    """Return the files of a task's labelled splits and of splits `more`; none on the hub.

    `key` is the task's, for errors.
    """
    if task.source is None or _is_hub(task):
        return []
    present = local_splits(task, key)
    names = [task.train_split, validation_split(task, key, list(present)), *task.further.values(), *more]
    used = {split_files.match_split(name, present) for name in names if name}
    return sorted({file for split, held in present.items() if split in used for file in held.files})


def version(source: str, paths: Sequence[Path] = ()) -> str:
    """Return the hub revision, the versions of a package and of `paths`, or the version of local files."""
    if source.startswith("hub:"):
        return source.partition("@")[2]
    root = locate(source, "source") if paths else Path()
    names = (path.relative_to(root).as_posix() if path != root else text_files.ending(path) for path in paths)
    local = user_files.version(dict(zip(names, paths, strict=True))) if paths else ""
    package = distribution(source) if source.startswith("package:") else ""
    return ", ".join(filter(None, [package, local]))


def _is_hub(task: Task) -> bool:
    return str(task.source).startswith("hub:")


def _read_hub(task: Task, key: str, split: str, labelled: bool) -> pd.DataFrame:
    dataset = hub_dataset(task.source, task.subset, f"{key}.source")[split]
    names = needed_columns(task, key, dataset.column_names, name_of(task, split), labelled)
    dataset = dataset.select_columns(names)
    frame: pd.DataFrame = dataset.to_pandas()
    for column, feature in dataset.features.items():
        if hasattr(feature, "names"):
            frame[column] = frame[column].map(dict(enumerate(feature.names)))
        elif items := getattr(getattr(feature, "feature", None), "names", None):  # of lists
            named = dict(enumerate(items))
            cells = [None if cell is None else [named.get(i) for i in cell] for cell in frame[column]]
            frame[column] = pd.Series(cells, frame.index, dtype=object)
    return frame
