"""The Parquet tables: fixed schemas, sorted rows, atomic writes, provenance in the footer."""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headspec.errors import DataError

LARGEST = 20_000_000  # bytes of an input that is known by its content, as in profiles/default
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


def provenance(job: Any, **more: Any) -> dict[str, Any]:
    """What made a table: study, package versions, and the job as `record` has it.

    `more` adds what the stage knows (device, seed, precision, counts). No time of day and no
    machine name: equal inputs give equal bytes.

    Parameters
    ----------
    job : the object `snakemake` of a rule's script
    """
    return {"study": job.params.study, "versions": versions(), "job": record(job), **more}


def versions() -> dict[str, str]:
    """The installed packages whose versions may change numbers."""
    found = {}
    for package in ("torch", "transformers", "numpy", "pandas", "pyarrow", "scipy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def record(job: Any) -> dict[str, Any]:
    """What decides whether a job's output is still what the config asks for.

    Its rule, parameters (code included), input files by content (of large ones and of states of
    training only the names) and output files: with it, `headspec.records` tells Snakemake of
    results that it has no record of.
    """
    inputs: dict[str, str | None] = {}
    for path in sorted(set(job.input)):
        inputs[path] = None
        # a state of training holds how long its steps took: it is never twice the same
        if os.path.getsize(path) <= LARGEST and not path.endswith(".pt"):
            with open(path, "rb") as file:
                inputs[path] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    params = sorted(repr(value) for value in job.params)
    return {"rule": job.rule, "params": params, "input": inputs, "output": list(job.output)}


def inscription(record: dict[str, Any]) -> str:
    """A job's record as a word, for the metadata of a file that is no table."""
    text = json.dumps(record, sort_keys=True).encode()
    return f"headspec:{base64.urlsafe_b64encode(zlib.compress(text, 9)).decode()}:"


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
