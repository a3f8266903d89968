"""Parquet tables: fixed schemas, sorted rows, atomic writes, provenance in the footer."""

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
from headspec.version import VERSION

LARGEST = 20_000_000  # bytes; larger inputs are not hashed, as in profiles/default
TEXT, INT, FLOAT, FLAG = pa.string(), pa.int32(), pa.float64(), pa.bool_()


@dataclass(frozen=True)
class Schema:
    """Columns of a table and their types; the first `keys` of them identify and sort its rows.

    A schema is defined in the module that fills the table, so that a new one changes no other stage.
    """

    columns: dict[str, pa.DataType]
    keys: int


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path that is renamed to `path` when the block ends without error.

    Readers of `path` therefore see the whole file or none, even after an interruption.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not _alive(int(leftover.suffixes[-2][1:])):  # its writer was killed
            leftover.unlink(missing_ok=True)
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
    """The origin of a table: study, versions of headspec and packages, and the `record` of the job.

    It has no time and no machine name, so that equal inputs give equal bytes.

    Parameters
    ----------
    job : the object `snakemake` of a rule's script
    more : entries that the stage adds, such as device, seed, precision and counts
    """
    made_by = {"headspec": VERSION, **versions()}
    return {"study": job.params.study, "versions": made_by, "job": record(job), **more}


def versions() -> dict[str, str]:
    """Versions of headspec and of the installed packages that can change results."""
    installed = {}
    for package in ("torch", "transformers", "numpy", "pandas", "pyarrow", "scipy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def record(job: Any) -> dict[str, Any]:
    """Everything that decides whether a job must run again.

    These are its rule, parameters (with hashes of its code), output files and input files with hashes of
    their content; large inputs and training states have no hash. From it, `headspec.pipeline.records`
    restores the records that Snakemake lacks.
    """
    inputs: dict[str, str | None] = {}
    for path in sorted(set(job.input)):
        inputs[path] = None
        # a training state contains step times, so its content differs in every run
        if os.path.getsize(path) <= LARGEST and not path.endswith(".pt"):
            with open(path, "rb") as file:
                inputs[path] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    params = sorted(repr(value) for value in job.params)
    return {"rule": job.rule, "params": params, "input": inputs, "output": list(job.output)}


def inscription(record: dict[str, Any]) -> str:
    """A job's record as one word, for the metadata of files other than tables."""
    text = json.dumps(record, sort_keys=True).encode()
    return f"headspec:{base64.urlsafe_b64encode(zlib.compress(text, 9)).decode()}:"


def write(path: str | Path, schema: Schema, frame: pd.DataFrame, footer: dict[str, Any]) -> None:
    """Write `frame` atomically as a table of this schema, its rows sorted, with `footer` as metadata."""
    columns = list(schema.columns)
    frame = frame[columns].sort_values(columns[: schema.keys], kind="stable", na_position="first")
    stored = pa.schema(
        list(schema.columns.items()), metadata={"headspec": json.dumps(footer, sort_keys=True)}
    )
    table = pa.Table.from_pandas(frame, schema=stored, preserve_index=False)
    table = table.replace_schema_metadata(stored.metadata)  # drop the metadata that pandas adds
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=3)


def read(path: str | Path) -> pd.DataFrame:
    """Read a table written by `write`; DataError if it is not a readable Parquet file."""
    try:
        return pq.read_table(path).to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet table ({error})") from None


def footer(path: str | Path) -> dict[str, Any]:
    """The footer of a table written by `write`."""
    return json.loads(pq.read_schema(path).metadata[b"headspec"])
