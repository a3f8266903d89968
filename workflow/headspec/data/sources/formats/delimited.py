"""CSV, quoted as in RFC 4180, and TSV without quotes."""

import csv
import io
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from headspec import text_files
from headspec.data.sources.formats.options import BLOCK, Choice, Options, frame
from headspec.errors import DataError, listing


def names(path: Path, options: Options) -> list[str]:
    if options.columns:
        return options.columns
    with text_files.open_text(path, options.encoding) as file:
        return _first(file, path)


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    data = pa.py_buffer(text_files.read_text(path, options.key, options.encoding).encode())
    with io.TextIOWrapper(pa.BufferReader(data), encoding="utf-8", newline="") as file:
        first = _first(file, path)
    if options.columns:
        _check_names(options, first, path)
    chosen = choice(options.columns or first) if first else []
    table = _parsed(data, path, options, chosen)
    for name in chosen:
        if name in options.texts and (numbers := _numbers(table[name])) is not None:
            value = pc.filter(table[name], pc.not_equal(table[name], ""))[0].as_py()
            # unlike an unquoted value, a quoted one cannot be null
            if _parsed(data, path, options, [name], [value])[name].null_count:
                table = table.set_column(table.column_names.index(name), name, numbers)
    return frame(table)


def _check_names(options: Options, first: list[str], path: Path) -> None:
    """Raise DataError if configured column names do not fit a file's first line, or repeat it."""
    names, key = options.columns or [], f"{options.key.removesuffix('source')}columns"
    if len(names) != len(first):
        raise DataError(
            f"{key}: got {len(names)} names, but the first line of {path.name} has {len(first)} columns; "
            "expected a name for each"
        )
    if names == first:
        raise DataError(
            f"{key}: got {listing(names)}, which is the header line of {path.name}; expected none"
        )


def _tabs(path: Path) -> bool:
    return text_files.ending(path) == ".tsv"


def _first(file: TextIO, path: Path) -> list[str]:
    """Return the cells of the first line."""
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if _tabs(path) else {}
    return next(csv.reader(file, **dialect), [])


def _parsed(
    data: pa.Buffer, path: Path, options: Options, columns: list[str], null: list[str] | None = None
) -> pa.Table:
    """Return columns as text; unquoted cells in `null` are missing."""
    tabs = _tabs(path)
    return pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(block_size=BLOCK, column_names=options.columns),
        pa_csv.ParseOptions(
            delimiter="\t" if tabs else ",", quote_char=False if tabs else '"', newlines_in_values=not tabs
        ),
        pa_csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=null or [],
            strings_can_be_null=bool(null),
            quoted_strings_can_be_null=False,
        ),
    )


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a text column as numbers if all its non-empty cells are numbers, else None."""
    values = pc.if_else(pc.equal(column, ""), None, column)
    for kind in (pa.int64(), pa.float64()) if values.null_count < len(values) else ():
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None
