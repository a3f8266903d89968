"""What is remembered of a task's source between two plannings, so that it is read once per content.

A record has the keys of the texts and the labels, not the texts. It stands for the content of the source's
files, the settings and the code that made it; files whose name, size and time are as they were are not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headspec import overlap, readers, sources, splits, tables, tasks
from headspec.errors import DataError
from headspec.locate import locate
from headspec.sections import Task
from headspec.study import plain
from headspec.tasks import Source, Split

FOLDER = Path(".snakemake/headspec")
#: settings of a task that do not change what its source is parted into
LATER = {"metrics", "train_examples"}
COLUMNS = [*overlap.KEYS, "label"]
SCHEMA = pa.schema({"split": pa.string(), **dict.fromkeys(overlap.KEYS, pa.uint64()), "label": pa.string()})


def source(study: str, name: str, task: Task, seed: int, folder: Path = FOLDER) -> Source:
    """`headspec.tasks.source` without the texts, out of the record in `folder` if it still holds.

    Where it is made anew, the test sets of the task are read too, to be sure that they can be.

    Parameters
    ----------
    study, name : whose record it is; another study has its own
    task : has a source in local files or a package
    seed : the study's `data_seed`

    Raises
    ------
    DataError
        As `headspec.tasks.source` and `headspec.splits.unlabelled`.
    """
    root = locate(str(task.source), f"tasks.{name}.source")
    files = readers.local_files(task, *task.test.values())
    path = folder / study / f"{name}.parquet"
    kept = _footer(path)
    try:
        stamp = _digest([[str(f.resolve()), (s := f.stat()).st_size, s.st_mtime_ns] for f in files])
        same_files = kept.get("stamp") == stamp
        content = kept["content"] if same_files else _content(root, files)
    except OSError as error:
        raise DataError(f"tasks.{name}.source: {error.filename} cannot be read ({error.strerror})") from None
    key = _digest([content, _made_by(task, seed)])
    found = _read(path, kept) if kept.get("key") == key else None
    if found is None:
        found = tasks.source(name, task, seed)
        for file in task.test:
            splits.unlabelled(name, task, file, found.train.rows)
    elif same_files:
        return found
    with contextlib.suppress(OSError):  # then the next planning reads the source again
        _write(path, found, {"stamp": stamp, "content": content, "key": key})
    return found


def _made_by(task: Task, seed: int) -> list[Any]:
    settings = plain(task.model_dump(exclude=LATER))
    return [settings, seed, readers.version(task), sources.closure(sources.LIBRARY / "source_records.py")]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _content(root: Path, files: list[Path]) -> str:
    """Hash of the names and bytes of `files`, which are `root` or in it."""
    found = []
    for file in files:
        with open(file, "rb") as stream:
            found.append(
                [file.relative_to(root).as_posix(), hashlib.file_digest(stream, "sha256").hexdigest()]
            )
    return _digest(found)


def _write(path: Path, found: Source, footer: dict[str, str]) -> None:
    parts = {"train": found.train, "validation": found.validation}
    parts |= {f"further/{other}": split for other, split in found.further.items()}
    frame = pd.concat(split.rows[COLUMNS].assign(split=part) for part, split in parts.items())
    more = {"classes": found.classes, "counts": {part: split.counts for part, split in parts.items()}}
    schema = SCHEMA.with_metadata({"headspec": json.dumps(footer | more)})
    with tables.atomic(path) as temporary:
        table = pa.Table.from_pandas(frame, schema, preserve_index=False).replace_schema_metadata(
            schema.metadata
        )
        pq.write_table(table, temporary, write_page_checksum=True)


def _footer(path: Path) -> dict[str, Any]:
    """The footer of a record; empty where there is none, or another file stands in its place."""
    try:
        found = tables.footer(path)
        return found if isinstance(found, dict) and {"stamp", "content", "key"} <= set(found) else {}
    except (OSError, ValueError, KeyError, TypeError):  # of Arrow's errors, those of files are one of these
        return {}


def _read(path: Path, footer: dict[str, Any]) -> Source | None:
    """The source in a record; none where it cannot be read whole."""
    try:
        frame = pq.read_table(path, page_checksum_verification=True).to_pandas()
        parts = {
            part: Split(frame.loc[frame["split"] == part, COLUMNS].reset_index(drop=True), counts)
            for part, counts in footer["counts"].items()
        }
        further = {
            part.removeprefix("further/"): s for part, s in parts.items() if part.startswith("further/")
        }
        return Source(parts["train"], parts["validation"], further, footer["classes"])
    except (pa.ArrowException, OSError, KeyError, AttributeError):
        return None
