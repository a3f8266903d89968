"""A cache of task sources, so that planning does not read unchanged sources again.

An entry holds labels and keys of texts, not the texts. It is valid for the content of the source's files, the
settings and the code that wrote it. Files with unchanged name, size and time are not read again.
"""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from headspec import tables
from headspec.config.sections.task import Task, determinants
from headspec.config.sources import locate
from headspec.config.study import plain
from headspec.data import overlap, prepare, splits
from headspec.data.prepare import Source, Split
from headspec.data.sources import readers
from headspec.errors import DataError, StorageError
from headspec.provenance import code_hash, hashes
from headspec.tasks.parts import with_parts

COLUMNS = [*overlap.KEYS, "label"]
SCHEMA = pa.schema({"split": pa.string(), **dict.fromkeys(overlap.KEYS, pa.uint64()), "label": pa.string()})


def read_source(study: str, name: str, task: Task, seed: int, folder: Path = hashes.FOLDER) -> Source:
    """Return a task's source, without texts from the cache in `folder` if its entry is valid.

    Otherwise it is the result of `prepare.read_source`, with texts, and the task's test sets are read, too,
    to check them. Raises DataError if a file cannot be read or is invalid.
    """
    root = locate(str(task.source), f"tasks.{name}.source")
    path = folder / study / f"{name}.parquet"
    footer = _footer(path)
    try:
        files = readers.files(task, *task.test.values(), key=f"tasks.{name}")
        stamp = _sha256([[str(f.resolve()), hashes.stat_key(f)] for f in files])
        same_files = footer.get("stamp") == stamp
        content = footer["content"] if same_files else _content(root, files)
    except OSError as error:
        raise DataError(
            f"tasks.{name}.source: {error.filename or root} cannot be read ({error.strerror})"
        ) from None
    key = _sha256([content, _determinants(task, seed)])
    cached = _read(path, footer) if footer.get("key") == key else None
    if cached and same_files:
        return cached
    current = cached or prepare.read_source(name, task, seed)
    if not cached:
        for file in task.test:
            splits.read_unlabelled(name, task, file, current.train.rows)
    with contextlib.suppress(OSError, StorageError):  # otherwise the next plan reads the source again
        _write(path, current, {"stamp": stamp, "content": content, "key": key})
    return current


def _determinants(task: Task, seed: int) -> list[Any]:
    """Return everything that the splits depend on besides the content of files."""
    settings = plain(determinants(task, "train_examples"))
    return [
        settings,
        seed,
        readers.version(task.source or ""),
        code_hash.by_root(with_parts((__file__,), (task.type,))),
    ]


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _content(root: Path, files: list[Path]) -> str:
    """Return a hash of the names and bytes of `files`, each of which is `root` or below it."""
    return _sha256([[file.relative_to(root).as_posix(), hashes.sha256(file)] for file in files])


def _write(path: Path, source: Source, footer: dict[str, str]) -> None:
    by_name = {"train": source.train, "validation": source.validation}
    by_name |= {f"further/{name}": split for name, split in source.further.items()}
    frame = pd.concat(split.rows[COLUMNS].assign(split=name) for name, split in by_name.items())
    more = {"classes": source.classes, "counts": {name: split.counts for name, split in by_name.items()}}
    more |= {"quality": {name: split.quality for name, split in by_name.items()}, "odd": source.odd}
    schema = SCHEMA.with_metadata({"headspec": json.dumps(footer | more)})
    table = pa.Table.from_pandas(frame, schema, preserve_index=False)
    tables.save(path, table.replace_schema_metadata(schema.metadata))


def _footer(path: Path) -> dict[str, Any]:
    """Return the footer of an entry; empty if the file is missing or not an entry."""
    try:
        footer = tables.footer(path)
        return footer if isinstance(footer, dict) and {"stamp", "content", "key"} <= set(footer) else {}
    except (DataError, OSError, ValueError, KeyError, TypeError):  # Arrow's errors are among these
        return {}


def _read(path: Path, footer: dict[str, Any]) -> Source | None:
    """Return the source in an entry, or None if it is damaged."""
    try:
        frame = tables.read(path)
        splits = {}
        for name, counts in footer["counts"].items():
            rows = frame.loc[frame["split"] == name, COLUMNS].reset_index(drop=True)
            splits[name] = Split(rows, counts, footer["quality"][name])
        train, validation = splits.pop("train"), splits.pop("validation")
        further = {name.removeprefix("further/"): split for name, split in splits.items()}
        return Source(train, validation, further, footer["classes"], footer["odd"])
    except (DataError, pa.ArrowException, OSError, KeyError, AttributeError):
        return None
