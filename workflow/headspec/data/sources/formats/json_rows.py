"""JSON: an object per row, on a line of its own, in an array, or in the lists of a document."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.json as pa_json

from headspec.data.sources import text_files
from headspec.data.sources.formats.options import BLOCK, Choice, Options, frame
from headspec.errors import DataError, shown

KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
KINDS |= {dict: "an object", type(None): "null"}
#: nested lists of a document: SQuAD's articles, their paragraphs, and questions on these
NESTED = ("data", "paragraphs", "qas")
#: the beginning of a document up to its first list, after texts such as its version
DOCUMENT = re.compile(r'\s*\{\s*("\w+"\s*:\s*"[^"]*"\s*,\s*)*"data"\s*:\s*\[\s*\{')


def names(path: Path, options: Options) -> list[str]:
    """Return the columns of all rows of an array or document, or of the first part of a file of lines."""
    start = text_files.read_start(path, options.encoding)
    whole = not start or start.lstrip().startswith("[") or DOCUMENT.match(start)
    text = text_files.read_text(path, options.key, options.encoding) if whole else start
    return list(_table(_lines(text, path, options), path, options).column_names)


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    text = text_files.read_text(path, options.key, options.encoding)
    table = _table(_lines(text, path, options), path, options)
    return frame(table.select(choice(table.column_names)))


def _lines(text: str, path: Path, options: Options) -> str:
    """Return a JSON array or document as lines, and other text unchanged."""
    if not text.lstrip().startswith("[") and not DOCUMENT.match(text):
        _check_rows(text, path, options)
        return text
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        if DOCUMENT.match(text) and error.msg == "Extra data":
            return text
        raise _wrong(path, options, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise _wrong(path, options, "its lists are nested too deeply") from None
    if isinstance(rows, dict):
        rows = _innermost(rows, path, options)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise _wrong(path, options, f"item {number} is {shown(row)}, expected an object for each row")
    return "\n".join(map(json.dumps, rows))


def _check_rows(text: str, path: Path, options: Options) -> None:
    """Raise DataError if a file is one object of columns or numbered rows, as pandas' `to_json` writes."""
    text = text.strip()
    try:
        row, end = json.JSONDecoder().raw_decode(text) if text.startswith("{") else ({}, 0)
    except (json.JSONDecodeError, RecursionError):
        return  # pyarrow says what is wrong, and where
    if end < len(text):
        return
    mappings = [tuple(value) for value in row.values() if isinstance(value, dict)]
    lists = [len(value) for value in row.values() if isinstance(value, list)]
    same = mappings or (lists if text_files.ending(path) == ".json" else [])
    alike = len(same) == len(row) > 0 and len({*same}) == 1 and same[0] not in (0, 1, ())
    if alike or {"columns", "data"} <= {*row} or {"schema", "data"} <= {*row}:
        what = "one object of columns or numbered rows, expected an object for each row"
        raise _wrong(path, options, f"it is {what}, as to_json(orient='records') of pandas writes")


def _innermost(document: dict[str, Any], path: Path, options: Options) -> list[Any]:
    """Return the objects of a document's innermost lists, each with the values of its enclosing objects."""
    rows: list[Any] = [document]
    for name in NESTED:
        if not any(isinstance(row, dict) and name in row for row in rows):
            break
        flattened = []
        for number, row in enumerate(rows, 1):
            inner = row.get(name) if isinstance(row, dict) else None
            if not isinstance(inner, list):
                raise _wrong(path, options, f"object {number} of {len(rows)} lacks the list '{name}'")
            outer = {key: value for key, value in row.items() if key != name}
            flattened += [outer | item if isinstance(item, dict) else item for item in inner]
        rows = flattened
    return rows


def _table(text: str, path: Path, options: Options) -> pa.Table:
    """Return the rows of JSON lines; text that looks like a time stays text."""
    settings = pa_json.ReadOptions(block_size=BLOCK)
    data = pa.py_buffer(text.encode())
    try:
        table = pa_json.read_json(pa.BufferReader(data), settings)
        times = pa.schema(
            [(f.name, data_type) for f in table.schema if (data_type := _untimed(f.type)) != f.type]
        )
        if len(times):
            as_text = pa_json.ParseOptions(explicit_schema=times)
            table = pa_json.read_json(pa.BufferReader(data), settings, as_text)
        return table
    except pa.ArrowInvalid as error:
        raise _wrong(path, options, _problem(text) or str(error).split("\n")[0][:200]) from None


def _untimed(data_type: pa.DataType) -> pa.DataType:
    """Return a type with text in place of times."""
    if pa.types.is_timestamp(data_type):
        return pa.string()
    if pa.types.is_list(data_type):
        return pa.list_(_untimed(data_type.value_type))
    return (
        pa.struct([(f.name, _untimed(f.type)) for f in data_type])
        if pa.types.is_struct(data_type)
        else data_type
    )


def _problem(text: str) -> str:
    """Describe the first line that is not a JSON object, or has another kind of value than those before."""
    first: dict[str, str] = {}
    for number, line in enumerate(io.StringIO(text), 1):
        try:
            row: Any = json.loads(line.rstrip()) if line.strip() else {}
        except json.JSONDecodeError as error:
            return f"line {number}, column {error.colno}: {error.msg}"
        except RecursionError:
            return f"line {number} is nested too deeply"
        if not isinstance(row, dict):
            return f"line {number} is {shown(row)}, expected an object for each row"
        for name, value in row.items():
            kind = KINDS[type(value)]
            if value is not None and first.setdefault(name, kind) != kind:
                return f"line {number} has {kind} in '{name}', where lines before have {first[name]}"
    return ""


def _wrong(path: Path, options: Options, problem: str) -> DataError:
    return DataError(f"{options.key}: {path.name} cannot be read as JSON lines ({problem})")
