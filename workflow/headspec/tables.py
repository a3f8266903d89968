"""The Parquet tables: fixed schemas, sorted rows, atomic writes, provenance in the footer."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headspec.errors import DataError

TEXT, INT, FLOAT, FLAG = pa.string(), pa.int32(), pa.float64(), pa.bool_()


@dataclass(frozen=True)
class Schema:
    """Columns of a table and their types; the first `keys` of them identify and sort its rows.

    It stands with what fills the table: a new one is no new code to other stages.
    """

    columns: dict[str, pa.DataType]
    keys: int


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path` that becomes `path` when the block ends without error.

    Whoever reads `path`, after whatever interruption, reads all of it or finds it absent.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not _alive(int(left.suffixes[-2][1:])):  # its writer was killed
            left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def provenance(study: str, settings: Any, **more: Any) -> dict[str, Any]:
    """What made a table: study, hash of the settings the stage read, package versions.

    `more` adds what the stage knows (device, seed, precision, counts). No time of day and no
    machine name: equal inputs give equal bytes.
    """
    versions = {}
    for package in ("torch", "transformers", "numpy", "pandas", "pyarrow", "scipy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    text = json.dumps(settings, sort_keys=True, default=str)
    return {
        "study": study,
        "settings": hashlib.sha256(text.encode()).hexdigest()[:16],
        "versions": versions,
        **more,
    }


def write(path: str | Path, schema: Schema, frame: pd.DataFrame, footer: dict[str, Any]) -> None:
    """Write `frame` as a table of that schema, sorted, atomically, with `footer`."""
    columns = list(schema.columns)
    frame = frame[columns].sort_values(columns[: schema.keys], kind="stable", na_position="first")
    stored = pa.schema(
        list(schema.columns.items()), metadata={"headspec": json.dumps(footer, sort_keys=True)}
    )
    table = pa.Table.from_pandas(frame, schema=stored, preserve_index=False)
    table = table.replace_schema_metadata(stored.metadata)  # without what pandas adds
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=3)


def read(path: str | Path) -> pd.DataFrame:
    """A table that `write` wrote."""
    try:
        return pq.read_table(path).to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet table ({error})") from None


def footer(path: str | Path) -> dict[str, Any]:
    """The provenance that `write` put into a table's footer."""
    return json.loads(pq.read_schema(path).metadata[b"headspec"])
