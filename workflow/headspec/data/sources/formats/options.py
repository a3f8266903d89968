"""What is known of a table before it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

#: maps the names of all columns to those to read; raises if one is missing
Choice = Callable[[list[str]], list[str]]
BLOCK = 1 << 24  # bytes that pyarrow parses at a time; no row may be longer


@dataclass(frozen=True)
class Options:
    """How a table is read.

    Attributes
    ----------
    key : config key of the source, for errors
    encoding : of text, by default UTF-8
    columns : names of the columns of CSV and TSV without a header
    texts : columns that should hold texts: numbers in CSV and TSV stay numbers in these, to be noticed
    """

    key: str
    encoding: str | None = None
    columns: list[str] | None = None
    texts: tuple[str, ...] = ()


def frame(table: pa.Table) -> pd.DataFrame:
    """A table of Arrow for pandas: values of categories, numbers of full precision, valid text."""
    table.validate(full=True)  # text in Parquet need not be UTF-8
    table = table.cast(pa.schema([(field.name, _plain(field.type)) for field in table.schema]))
    # pandas would make an index of columns, and number rows from elsewhere than 1
    return table.to_pandas(ignore_metadata=True)


def _plain(kind: pa.DataType) -> pa.DataType:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.float32() if pa.types.is_float16(kind) else kind
