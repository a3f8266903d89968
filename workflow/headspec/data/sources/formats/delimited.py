"""CSV and TSV in any quoting dialect; other delimiters if the config names them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from headspec.data.sources import text_files
from headspec.data.sources.formats import dialects
from headspec.data.sources.formats.dialects import PLAIN, RFC4180, Quoted, Rows
from headspec.data.sources.formats.options import NOTES, Choice, Options, filled
from headspec.errors import DataError, listing, nearest

TAB = "\t"
#: delimiters that a header line is searched for, besides the one it was read with
USUAL = (",", ";", TAB, "|")
#: a run of an odd number of backslashes
SINGLE_BACKSLASH = re.compile(r"(?<!\\)\\(?:\\\\)*(?!\\)")


def names(path: Path, options: Options) -> list[str]:
    if options.columns:
        return options.columns
    return dialects.first(text_files.read_start(path, options.encoding), _delimiter(path, options))


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    text = text_files.read_text(path, options.key, options.encoding)
    text_files.check_line_ends(text, f"{options.key}: {path.name}")
    first = dialects.first(text, _delimiter(path, options))
    if not first:
        raise DataError(f"{options.key}: {path.name} is empty")
    if options.columns:
        _check_names(options, first, path)
    chosen = choice(options.columns or first)
    width = len(options.columns) if options.columns else None
    rows = dialects.rows(text, _delimiter(path, options), _quoted(path, options), width)
    if rows.problem:
        raise DataError(f"{options.key}: line {rows.line} of {path.name} {rows.problem}")
    cells = rows.cells if options.columns else rows.cells[1:]
    places = [(options.columns or first).index(name) for name in chosen]
    columns = {name: [row[at] for row in cells] for name, at in zip(chosen, places, strict=True)}
    if not options.columns:
        _check_header(columns, path, options)
    frame = pd.DataFrame({name: _column(column, name in options.texts) for name, column in columns.items()})
    frame.attrs[NOTES] = [*_notes(rows, text, path, options)]
    return frame


def advice(present: list[str], wanted: set[str], path: Path, options: Options) -> str:
    """Explain why a first line, read as the names `present`, has none of the `wanted` ones."""
    line = _delimiter(path, options).join(present)
    fitting = [other for other in USUAL if wanted & {cell.strip(' "') for cell in line.split(other)}]
    if fitting and fitting[0] != _delimiter(path, options):
        return _other(fitting[0], options)
    meant = "".join(hint for name in sorted(wanted) if (hint := nearest(name, present)))
    return f"{meant} If it has no header line, name its columns in {_key('columns', options)}."


def _key(name: str, options: Options) -> str:
    return f"{options.key.removesuffix('source')}{name}"


def _other(delimiter: str, options: Options) -> str:
    """Explain that a file has another delimiter than it was read with."""
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
        raise DataError(f"{key}: got {listing(names)}, which is the header line of {path.name}; remove it")


def _check_header(columns: dict[str, list[str]], path: Path, options: Options) -> None:
    """Raise DataError if a row repeats the column names, in any order, as in files joined by `cat`."""
    names = sorted(columns)
    if len(names) < 2:
        return  # a single text may equal the name of its column
    rows = enumerate(zip(*columns.values(), strict=True), 1)
    repeated = [number for number, row in rows if row[0] in columns and sorted(row) == names]
    if repeated:
        more = f", and {len(repeated) - 1} more do" if len(repeated) > 1 else ""
        raise DataError(
            f"{options.key}: row {repeated[0]} of {path.name} repeats the header line{more}, as in files "
            "joined by cat; expected one header"
        )


def _notes(rows: Rows, text: str, path: Path, options: Options) -> Iterator[str]:
    """Explain how a file is read if it is not, or may not be, quoted as its suffix suggests."""
    dialect, usual = rows.dialect, RFC4180 if _quoted(path, options) else PLAIN
    if dialect.backslash:
        yield f"treating a backslash before a quote or delimiter of {path.name} as its escape character"
    elif "\\" in text and not SINGLE_BACKSLASH.search(text):
        yield f"all backslashes of {path.name} are in pairs; treating both of a pair as characters"
    if dialect == PLAIN != usual:
        yield f"treating quotes of {path.name} as characters, since some do not enclose a cell"
    elif dialect.quote not in ("", usual.quote):
        yield f"treating the {dialect.quote} around cells of {path.name} as quotation marks"


def _delimiter(path: Path, options: Options) -> str:
    return options.delimiter or (TAB if text_files.ending(path) == ".tsv" else ",")


def _quoted(path: Path, options: Options) -> bool:
    return text_files.ending(path) != ".tsv" or _delimiter(path, options) != TAB


def _column(cells: list[str], text: bool) -> pd.Series:
    """Return cells as text, or as numbers if text was expected but all values are unquoted numbers."""
    if text and not any(isinstance(cell, Quoted) for cell in cells):
        values = pa.array([cell or None for cell in cells], pa.string())
        for data_type in (pa.int64(), pa.float64()) if values.null_count < len(values) else ():
            try:
                numbers: pd.Series = pc.cast(values, data_type).to_pandas()
                return numbers
            except pa.ArrowInvalid:
                continue
    return pd.Series([*map(str, cells)], dtype="str")
