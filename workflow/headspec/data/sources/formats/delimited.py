"""CSV, quoted as in RFC 4180, and TSV without quotes; other delimiters if the config names them."""

import csv
import functools
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from headspec.data.sources import text_files
from headspec.data.sources.formats.options import BLOCK, Choice, Options, filled, frame
from headspec.errors import DataError, listing, nearest

TAB, QUOTE = "\t", '"'
#: characters that no text has, for carriage returns inside texts, which pyarrow takes for ends of lines
PRIVATE = range(0xE000, 0xF900)
#: delimiters that a header line is searched for, beside the one it was read with
USUAL = (",", ";", TAB, "|")


def names(path: Path, options: Options) -> list[str]:
    if options.columns:
        return options.columns
    return _first(text_files.read_start(path, options.encoding), path, options)


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    text = text_files.read_text(path, options.key, options.encoding)
    text_files.check_line_ends(text, f"{options.key}: {path.name}")
    mark = ""
    if text_files.RETURN.search(text):
        mark = next(character for character in map(chr, PRIVATE) if character not in text)
        text = text_files.RETURN.sub(mark, text)
    first = _first(text, path, options)
    if options.columns:
        _check_names(options, first, path)
    chosen = choice(options.columns or first) if first else []
    parse = functools.partial(_parsed, path, options)
    try:
        table = parse(data := text.encode(), chosen)
    except pa.ArrowInvalid:
        table = parse(data := _trimmed(text, path, options).encode(), chosen)
    if not options.columns:
        _check_header(table, path, options)
    for name in chosen:
        if name in options.texts and (numbers := _numbers(table[name])) is not None:
            value = pc.filter(table[name], pc.not_equal(table[name], ""))[0].as_py()
            # unlike an unquoted value, a quoted one cannot be null
            if parse(data, [name], [value])[name].null_count:
                table = table.set_column(table.column_names.index(name), name, numbers)
    read = frame(table)
    return (
        read.map(lambda cell: cell.replace(mark, "\r") if isinstance(cell, str) else cell) if mark else read
    )


def advice(present: list[str], wanted: set[str], path: Path, options: Options) -> str:
    """Say why a first line, read as the names `present`, has none of the `wanted` ones."""
    line = _delimiter(path, options).join(present)
    if fitting := [other for other in USUAL if wanted & {*_unquoted(line.split(other))}]:
        if fitting[0] != _delimiter(path, options):
            return _other(fitting[0], options)
        name = text_files.uncompressed(path).with_suffix(".csv").name
        return rf' Its cells are in quotes: name it {name}, and set {_key("delimiter", options)} to "\t".'
    meant = "".join(hint for name in sorted(wanted) if (hint := nearest(name, present)))
    return f"{meant} If it has no header line, name its columns in {_key('columns', options)}."


def _unquoted(cells: Sequence[str]) -> list[str]:
    return [cell.strip().strip(QUOTE) for cell in cells]


def _key(name: str, options: Options) -> str:
    return f"{options.key.removesuffix('source')}{name}"


def _other(delimiter: str, options: Options) -> str:
    """Say that a file has another delimiter than it was read with."""
    called, written = ("tabs", r'"\t"') if delimiter == TAB else (delimiter, f'"{delimiter}"')
    return f" Its columns are separated by {called}: set {_key('delimiter', options)} to {written}."


def _check_names(options: Options, first: list[str], path: Path) -> None:
    """Raise DataError if configured column names do not fit a file's first line, or repeat it."""
    names, key = options.columns or [], _key("columns", options)
    if not filled(first) <= len(names) <= len(first):
        line = _delimiter(path, options).join(first)
        others = [other for other in USUAL if len(line.split(other)) == len(names) > 1]
        raise DataError(
            f"{key}: got {len(names)} names, but the first line of {path.name} has {len(first)} columns; "
            f"expected a name for each.{_other(others[0], options) if others else ''}"
        )
    if names == first:
        raise DataError(
            f"{key}: got {listing(names)}, which is the header line of {path.name}; expected none"
        )


def _check_header(table: pa.Table, path: Path, options: Options) -> None:
    """Raise DataError if a row repeats the names of columns, in any order, as in files joined by `cat`."""
    names = sorted(table.column_names)
    if len(names) < 2:
        return  # a text may be the name of its column
    same = (pc.is_in(column, pa.array(names)) for column in table.columns)
    rows = pc.indices_nonzero(functools.reduce(pc.and_, same)).to_pylist()
    repeated = [row for row in rows if sorted(column[row].as_py() for column in table.columns) == names]
    if repeated:
        more = f", and {len(repeated) - 1} more do" if len(repeated) > 1 else ""
        raise DataError(
            f"{options.key}: row {repeated[0] + 1} of {path.name} repeats the header line{more}, as in files "
            "joined by cat; expected one header"
        )


def _delimiter(path: Path, options: Options) -> str:
    return options.delimiter or (TAB if text_files.ending(path) == ".tsv" else ",")


def _quoted(path: Path, options: Options) -> bool:
    return text_files.ending(path) != ".tsv" or _delimiter(path, options) != TAB


def _first(text: str, path: Path, options: Options) -> list[str]:
    """Return the cells of the first row of a text."""
    dialect: dict[str, Any] = {} if _quoted(path, options) else {"quoting": csv.QUOTE_NONE}
    rows = csv.reader(io.StringIO(text, newline="\n"), delimiter=_delimiter(path, options), **dialect)
    return next(rows, [])


def _trimmed(text: str, path: Path, options: Options) -> str:
    """Return a text without empty cells beyond the last column at ends of lines."""
    delimiter = _delimiter(path, options)
    width = len(options.columns or ()) or filled(_first(text, path, options))
    rows = text.split("\n")
    for number, row in enumerate(rows):
        line = row.rstrip("\r")
        empty = len(line) - len(line.rstrip(delimiter))
        if empty and (surplus := min(len(_first(line, path, options)) - width, empty)) > 0:
            rows[number] = line[: len(line) - surplus]
    return "\n".join(rows)


def _parsed(
    path: Path, options: Options, data: bytes, columns: list[str], null: list[str] | None = None
) -> pa.Table:
    """Return columns as text; unquoted cells in `null` are missing."""
    quoted = _quoted(path, options)
    return pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(block_size=BLOCK, column_names=options.columns),
        pa_csv.ParseOptions(
            delimiter=_delimiter(path, options),
            quote_char=QUOTE if quoted else False,
            newlines_in_values=quoted,
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
    for data_type in (pa.int64(), pa.float64()) if values.null_count < len(values) else ():
        try:
            return values.cast(data_type)
        except pa.ArrowInvalid:
            continue
    return None
