"""Files with a line for each word (`headspec.data.sources.formats.conll`)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from headspec.data.sources.formats import conll
from headspec.data.sources.formats.options import Choice, Options


def names(path: Path, options: Options) -> list[str]:
    return conll.names(path, options.key, options.encoding)


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    frame, _ = conll.read_sentences(path, options.key, options.encoding)
    return frame[choice(frame.columns.tolist())]
