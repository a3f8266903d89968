"""Settings for reading a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa

#: function from the names of all columns to those to read, which raises if one is missing
Choice = Callable[[list[str]], list[str]]
#: attribute of a table with a sentence for each choice of its reader that users should know about
NOTES = "notes"


@dataclass(frozen=True)
class Options:
    """How a table is read.

    For CSV and TSV, `columns` are the names of columns if there is no header, and `delimiter` separates
    cells; in the columns `texts`, numbers stay numbers, so that checks find them. `part` names the rows to
    read from a JSON document. `key` is that of the source, for errors.
    """

    key: str
    encoding: str | None = None
    columns: list[str] | None = None
    delimiter: str | None = None
    texts: tuple[str, ...] = ()
    part: str | None = None


class Format(Protocol):
    """Functions that the module of a format defines."""

    def names(self, path: Path, options: Options) -> list[str]:
        """Return the columns of a file, reading as little of it as possible."""

    def read(self, path: Path, options: Options, choice: Choice) -> pd.DataFrame:
        """Return the chosen columns of a file."""


def filled(cells: Sequence[str]) -> int:
    """Return the number of cells of a line up to the last non-empty one."""
    return max((place for place, cell in enumerate(cells, 1) if cell), default=0)


def frame(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table in pandas: categories as their values, float16 as float32.

    Raises ArrowInvalid if text is not UTF-8.
    """
    table.validate(full=True)  # text in Parquet need not be UTF-8
    table = table.cast(pa.schema([(field.name, _plain(field.type)) for field in table.schema]))
    # pandas would turn columns into an index, instead of numbering rows
    converted: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return converted


def _plain(data_type: pa.DataType) -> pa.DataType:
    data_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return pa.float32() if pa.types.is_float16(data_type) else data_type
