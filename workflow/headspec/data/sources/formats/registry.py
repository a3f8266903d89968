"""Formats of tables by file name suffix."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from headspec.data.sources.formats import conll, delimited, json_rows, parquet
from headspec.data.sources.formats.options import NOTES, Choice, Format, Options
from headspec.data.sources.text_files import ARCHIVES, COMPRESSED, ending
from headspec.errors import DataError, listing

#: suffix: name of the format, and its module
FORMATS: dict[str, tuple[str, Format]] = {
    ".parquet": ("Parquet", parquet),
    ".csv": ("CSV", delimited),
    ".tsv": ("TSV", delimited),
    ".jsonl": ("JSON lines", json_rows),
    ".json": ("JSON", json_rows),
    conll.CONLLU: ("CoNLL-U", conll),
    conll.COLUMNS: ("columns of words", conll),
}


def names(path: Path, options: Options) -> list[str]:
    """Return the names of the columns of a table."""
    return _format(path, options)[1].names(path, options)


def table(paths: Sequence[Path], choice: Choice, options: Options) -> pd.DataFrame:
    """Return chosen columns of a table in one or more files; raise DataError if a file cannot be read."""
    frames = [_table(path, choice, options) for path in paths]
    for path, frame in zip(paths, frames, strict=True) if len(paths) > 1 else ():
        if conll.LINE in frame:
            frame[conll.LINE] = frame[conll.LINE].astype("str") + f" of {path.name}"
    joined = pd.concat(frames, ignore_index=True)
    joined.attrs[NOTES] = [note for frame in frames for note in frame.attrs.get(NOTES, ())]
    return joined


def _table(path: Path, choice: Choice, options: Options) -> pd.DataFrame:
    if ending(path) not in FORMATS:
        raise DataError(f"{options.key}: '{path.name}' is not a table; {_expected(path)}")
    title, module = _format(path, options)

    def chosen(present: list[str]) -> list[str]:
        wanted = choice(present)
        if repeated := [name for name in wanted if present.count(name) > 1]:
            raise DataError(
                f"{options.key}: {path.name} has several columns {listing(repeated)}; names must be unique"
            )
        return wanted

    try:
        return module.read(path, options, chosen)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError(f"{options.key}: {path.name} cannot be read as {title} ({reason})") from None


def _format(path: Path, options: Options) -> tuple[str, Format]:
    """Return the format of a file by its suffix; CSV and TSV may hold CoNLL-U, which has its own columns.

    Raises DataError if the config names columns of CoNLL-U.
    """
    title, module = FORMATS[ending(path)]
    if module is delimited and conll.is_conllu(path, options.encoding):
        if options.columns:
            key = options.key.removesuffix("source")
            raise DataError(f"{key}columns: has no effect on {path.name}, which holds CoNLL-U; remove it")
        return FORMATS[conll.CONLLU]
    return title, module


def _expected(path: Path) -> str:
    if path.suffix.lower() in ARCHIVES:
        return f"unpack it, or compress it as {' or '.join(COMPRESSED)} instead"
    words = ending(path) == ".txt" or conll.COLUMNS[1:] in ending(path)
    hint = f"; for a line per word, name it {path.stem}{conll.COLUMNS}" if words else ""
    return f"expected the ending {' or '.join(FORMATS)}{hint}"
