"""Parquet."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from headspec.data.sources import text_files
from headspec.data.sources.formats.options import Choice, Options, frame


def names(path: Path, options: Options) -> list[str]:
    return list(pq.read_schema(path).names)


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    text_files.check_pointer(path, options.key)
    with pq.ParquetFile(path) as file:
        return frame(file.read(columns=choice(file.schema_arrow.names)))
