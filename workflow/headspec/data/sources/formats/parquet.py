"""Parquet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from headspec.data.sources.formats.options import Choice, Options, frame


def names(path: Path, options: Options) -> list[str]:
    return pq.read_schema(path).names


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        return frame(file.read(columns=choice(file.schema_arrow.names)))
