"""Parquet."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from headspec.data.sources.formats.options import Choice, Options, frame
from headspec.errors import DataError

#: content in place of a large file in a clone without these
POINTER = b"version https://git-lfs."


def names(path: Path, options: Options) -> list[str]:
    return list(pq.read_schema(path).names)


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    with open(path, "rb") as start:
        if start.read(len(POINTER)) == POINTER:
            raise DataError(
                f"{options.key}: {path.name} is a pointer of Git LFS; expected its file, by git lfs pull"
            )
    with pq.ParquetFile(path) as file:
        return frame(file.read(columns=choice(file.schema_arrow.names)))
