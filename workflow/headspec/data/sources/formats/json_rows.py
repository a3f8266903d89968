"""JSON: an object per row, on its own line, in an array, or in the lists of a document."""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from headspec.data.sources import text_files
from headspec.data.sources.formats.options import Choice, Options
from headspec.errors import DataError, listing, shown
from headspec.provenance.hashes import stat_key

KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
KINDS |= {dict: "an object", type(None): "null"}
#: nested lists of a document: SQuAD's articles, paragraphs and questions
NESTED = ("data", "paragraphs", "qas")
#: escaped surrogate, half of a pair
HALF = re.compile(r"\\u[dD][89a-fA-F]")

Row = dict[str, Any]


def names(path: Path, options: Options) -> list[str]:
    """Return the columns of all rows of an array or document, or of the start of a file of lines."""
    start = text_files.read_start(path, options.encoding)
    text = start if _of_lines(start) else text_files.read_text(path, options.key, options.encoding)
    return _names(row for _, row in _rows(text, path, options))


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    numbered = _rows(text_files.read_text(path, options.key, options.encoding), path, options)
    chosen = choice(_names(row for _, row in numbered))
    _check_kinds(numbered, chosen, path, options)
    return pd.DataFrame({name: pd.Series([row.get(name) for _, row in numbered]) for name in chosen})


def parts(path: Path) -> Sequence[str]:
    """Return the names of lists of rows in a document with several, such as splits."""
    try:
        return _parts(path, *stat_key(path))
    except (DataError, OSError, UnicodeError):
        return ()  # reading the file will say why


@functools.lru_cache(maxsize=64)
def _parts(path: Path, *_: int) -> Sequence[str]:
    if _of_lines(text_files.read_start(path)):
        return ()
    try:
        document = json.loads(text_files.read_text(path, "source"))
    except (json.JSONDecodeError, RecursionError):
        return ()
    found = _lists(document) if isinstance(document, dict) else {}
    return [*found] if len(found) > 1 and NESTED[0] not in found else ()


def _names(rows: Iterator[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _of_lines(text: str) -> bool:
    """Return whether the first line of a text is an object and others follow."""
    first, _, others = text.lstrip().partition("\n")
    if not first.startswith("{") or not others.strip():
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (json.JSONDecodeError, RecursionError):
        return False


def _rows(text: str, path: Path, options: Options) -> list[tuple[int, Row]]:
    """Return the row objects, each with its line, or its number in a list, from 1."""
    document = text.lstrip()
    if not document:
        raise _wrong(path, options, "it is empty")
    if not document.startswith(("[", "{")) or _of_lines(text):
        return [*_lines(text, path, options)]
    try:
        rows = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        if document.startswith("{") and error.msg == "Extra data":
            return [*_lines(text, path, options)]
        raise _wrong(path, options, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise _wrong(path, options, "its lists are nested too deeply") from None
    except ValueError as error:
        raise _wrong(path, options, str(error)) from None
    if isinstance(rows, dict):
        rows = _inside(rows, path, options)
    half = HALF.search(text) is not None
    places = enumerate(rows, 1)
    return [(number, _checked(row, f"item {number}", half, path, options)) for number, row in places]


def _lines(text: str, path: Path, options: Options) -> Iterator[tuple[int, Row]]:
    text_files.check_line_ends(text, f"{options.key}: {path.name}")
    half = HALF.search(text) is not None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_object)
        except json.JSONDecodeError as error:
            raise _wrong(path, options, f"line {number}, column {error.colno}: {error.msg}") from None
        except RecursionError:
            raise _wrong(path, options, f"line {number} is nested too deeply") from None
        except ValueError as error:
            raise _wrong(path, options, f"line {number}: {error}") from None
        yield number, _checked(row, f"line {number}", half, path, options)


def _object(pairs: list[tuple[str, Any]]) -> Row:
    """Return an object; raise ValueError if it has a name twice."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' occurs twice")
    return row


def _checked(row: Any, place: str, half: bool, path: Path, options: Options) -> Row:
    """Return a row; raise DataError if it is not an object or, if `half`, has unpaired surrogates."""
    if not isinstance(row, dict):
        raise _wrong(path, options, f"{place} is {shown(row)}, expected an object for each row")
    try:
        if half:
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _wrong(path, options, f"{place} has half of a surrogate pair") from None
    return row


def _check_kinds(
    numbered: Sequence[tuple[int, Row]], chosen: Sequence[str], path: Path, options: Options
) -> None:
    """Raise DataError if a column, or its lists, mix kinds of values; null is allowed."""
    for name in chosen:
        first: dict[str, str] = {}
        for number, row in numbered:
            value = row.get(name)
            kinds = {("", KINDS[type(value)])}
            if isinstance(value, list):
                kinds |= {("a list with ", KINDS[type(item)]) for item in value}
            for within, kind in sorted(kinds):
                if kind != "null" and first.setdefault(within, kind) != kind:
                    before = f"where lines before have {within}{first[within]}"
                    raise _wrong(path, options, f"line {number} has {within}{kind} in '{name}', {before}")


def _lists(document: Row) -> dict[str, list[Any]]:
    """Return the lists of objects in a document, by name."""
    return {
        name: value
        for name, value in document.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    }


def _inside(document: Row, path: Path, options: Options) -> list[Any]:
    """Return the rows of an object that is a whole file; raise DataError if it stores them in another way."""
    lists = _lists(document)
    if options.part in lists:
        return lists[options.part]
    _check_rows(document, path, options)
    if NESTED[0] in lists:
        return _innermost(document, path, options)
    if len(lists) > 1:
        said = f"it has rows under {listing(lists)}; expected a file for each, or this one as the source"
        raise _wrong(path, options, said)
    return next(iter(lists.values()), [document])


def _check_rows(document: Row, path: Path, options: Options) -> None:
    """Raise DataError if an object has columns or numbered rows, as written by pandas' `to_json`."""
    mappings = [tuple(value) for value in document.values() if isinstance(value, dict)]
    lists = [len(value) for value in document.values() if isinstance(value, list)]
    same = mappings or (lists if text_files.ending(path) == ".json" else [])
    alike = len(same) == len(document) > 0 and len({*same}) == 1 and same[0] not in (0, 1, ())
    columns = alike and not _lists(document)
    if columns or {"columns", "data"} <= {*document} or {"schema", "data"} <= {*document}:
        what = "one object of columns or numbered rows, expected an object for each row"
        raise _wrong(path, options, f"it is {what}, as to_json(orient='records') of pandas writes")


def _innermost(document: Row, path: Path, options: Options) -> list[Any]:
    """Return the objects of a document's innermost lists, each with the values of enclosing objects."""
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


def _wrong(path: Path, options: Options, problem: str) -> DataError:
    return DataError(f"{options.key}: {path.name} cannot be read as JSON lines ({problem})")
