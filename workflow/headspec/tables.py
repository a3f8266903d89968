"""Parquet tables: fixed schemas, sorted rows, provenance in the footer."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import zlib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headspec import __version__, head_arrays, per_example
from headspec.errors import DamageError
from headspec.provenance import files
from headspec.provenance.files import atomic
from headspec.provenance.hashes import record_sha256

#: suffixes of files that contain the record of their job
WITH_RECORD = (
    ".parquet", ".svg", ".png", ".pdf", ".html", ".zip", "/classifiers.json", "/trunk.pt", "/state.pt",
)  # fmt: skip
#: packages that can change results
COMPUTING = (
    "torch", "transformers", "numpy", "pandas", "pyarrow", "scipy", "scikit-learn", "peft", "tokenizers",
    "sentencepiece", "sacrebleu", "datasets", "regex", "bitsandbytes", "torchao",
)  # fmt: skip
TEXT, INT, FLOAT, FLAG = pa.string(), pa.int32(), pa.float64(), pa.bool_()
#: column of class probabilities, which takes several times longer to read than all others
PROBABILITIES, PROBABILITY_LIST = "probabilities", pa.list_(pa.float32())


@dataclass(frozen=True)
class Schema:
    """Columns of a frame and their types; the first `keys` columns identify and sort the rows.

    The rest is for the reference (`headspec.pipeline.outputs`):

    Attributes
    ----------
    row : what a row describes, if the names of the key columns do not say it
    paths : in the folder of results, with `{run}` for that of a run; by default ``tables/<name>.parquet``
    about : meanings of columns that other tables do not share
    """

    columns: dict[str, pa.DataType]
    keys: int
    row: str = ""
    paths: tuple[str, ...] = ()
    about: dict[str, str] = field(default_factory=dict)

    @property
    def has_heads(self) -> bool:
        """Whether rows are heads or layers, so that the table has a column `attention`."""
        return "layer" in self.columns

    @property
    def has_examples(self) -> bool:
        """Whether rows are examples, whose labels may have several numbers (`headspec.per_example`)."""
        of_examples: bool = self.columns.get("label") == FLOAT
        return of_examples

    @property
    def stored(self) -> Schema:
        """The schema of the table on disk."""
        columns, keys = dict(self.columns), self.keys
        if self.has_heads:
            at = list(columns).index("layer")
            columns = dict(list(columns.items())[:at]) | {"attention": TEXT} | columns
            keys += at < keys
        if self.has_examples:
            more = {name: pa.list_(FLOAT) for column, name in per_example.LISTS.items() if column in columns}
            columns |= more | ({per_example.TEXT: TEXT} if "prediction" in columns else {})
        return Schema(columns, keys)


def provenance(job: Any, **more: Any) -> dict[str, Any]:
    """Return the footer of a table: study, versions of packages, `job_record`, `inherited`, and `more`.

    It has neither time nor machine name, so that equal inputs give equal bytes.
    """
    made_by = {"headspec": __version__, **versions()}
    kinds = inherited(job.input)
    return {"study": job.params.study, "versions": made_by, "job": job_record(job), **kinds, **more}


def inherited(paths: Any) -> dict[str, Any]:
    """Return the entry `attention` of a footer, from the tables in `paths`; {} for one kind of attention."""
    layers: dict[str, head_arrays.Layers] = {}
    for path in paths:
        if str(path).endswith(".parquet"):
            metadata = pq.read_schema(path).metadata or {}
            layers |= json.loads(metadata.get(b"headspec", b"{}")).get("attention", {})
    return {"attention": layers} if layers else {}


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of installed packages that can change results."""
    installed = {}
    for package in COMPUTING:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def job_record(job: Any) -> dict[str, Any]:
    """Return the record of a job, which determines whether it must run again (`headspec.pipeline.current`).

    It has the rule, params (including hashes of code), and input and output files with their SHA-256, except
    for outputs that contain the record or are still to be written.
    """
    outputs = dict.fromkeys(job.output)
    for path in job.output:
        if not path.endswith(WITH_RECORD) and os.path.exists(path):
            outputs[path] = record_sha256(path)
    return {
        "rule": job.rule,
        "params": sorted(repr(value) for value in job.params),
        "input": {path: record_sha256(path) for path in job.input},
        "output": outputs,
    }


def record_text(record: dict[str, Any]) -> str:
    """Return a record as one word, for the metadata of figures, pages and archives."""
    text = json.dumps(record, sort_keys=True).encode()
    return f"headspec:{base64.urlsafe_b64encode(zlib.compress(text, 9)).decode()}:"


def write(path: str | Path, schema: Schema, frame: pd.DataFrame, footer: dict[str, Any]) -> None:
    """Write `frame` atomically as a table with this schema, sorted rows, and `footer` as metadata."""
    columns = list(schema.columns)
    columns += [name for name in schema.stored.columns if name not in columns and name in frame]
    frame = frame[columns].sort_values(columns[: schema.keys], kind="stable", na_position="first")
    if schema.has_heads:
        frame = head_arrays.to_layers(frame, footer.get("attention", {}))
    frame = frame.assign(**{name: None for name in schema.stored.columns if name not in frame})
    stored = pa.schema(
        list(schema.stored.columns.items()), metadata={"headspec": json.dumps(footer, sort_keys=True)}
    )
    table = pa.Table.from_pandas(frame, schema=stored, preserve_index=False)
    save(path, table.replace_schema_metadata(stored.metadata))  # drop the metadata that pandas adds


def save(path: str | Path, table: pa.Table) -> None:
    """Write `table` atomically, with its metadata as footer, and its SHA-256."""
    with atomic(path) as temporary:
        with pq.ParquetWriter(temporary, table.schema, compression="zstd", compression_level=3) as file:
            file.write_table(table)
            file.add_key_value_metadata({"sha256": files.PLACEHOLDER})
        files.embed_sha256(temporary)


def read(path: str | Path, probabilities: bool = False) -> pd.DataFrame:
    """Return the frame given to `write`, sorted, without predicted texts and, by default, `probabilities`.

    Raises DataError if the file cannot be read; DamageError if it changed or was written as another table.
    """
    written = footer(path)
    left_out = (per_example.TEXT,) if probabilities else (per_example.TEXT, PROBABILITIES)
    names = [name for name in pq.read_schema(path).names if name not in left_out]
    table = pq.read_table(path, columns=names)
    list_columns = {name: table[name] for name in per_example.LISTS.values() if name in names}
    given = {
        name: pd.arrays.ArrowExtensionArray(column)
        for name, column in list_columns.items()
        if column.null_count < len(column)
    }
    frame = table.drop_columns([*list_columns]).to_pandas().assign(**given)
    return head_arrays.to_rows(frame, written.get("attention", {})) if "attention" in frame else frame


def footer(path: str | Path) -> dict[str, Any]:
    """Return the footer of a table written by `write`. Raises as `read`."""
    files.verify(path)
    written = unverified_footer(path)
    files.verify_place(path, written.get("job", {}).get("output", ()))
    return written


def unverified_footer(path: str | Path) -> dict[str, Any]:
    """Return the footer of a table without verifying the table.

    Raises DamageError if the footer cannot be read, and FileNotFoundError if there is no file.
    """
    try:
        footer: dict[str, Any] = json.loads(pq.read_schema(path).metadata[b"headspec"])
        return footer
    except FileNotFoundError:
        raise
    except Exception:  # Arrow and codecs raise many kinds of errors for invalid bytes
        raise DamageError(f"{path}: damaged, or not written by headspec. {files.REMAKE}") from None
