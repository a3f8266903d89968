"""What is counted of predicted texts, each under a number.

Metrics take one label and one prediction for each example. Those of a text are the number of what its metrics
are computed from (`headspec.statistics.text_counts`): a digest of it, the same in every process, and larger
than any class, score or count of units. A process knows the numbers that it has made, and those of the tables
that it has read: only tables on disk have what is behind them, in columns of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

#: the smallest number of counts; with 52 random bits more it is still exact in float64
FIRST = 2.0**52
#: column of numbers: that of what is behind them
COUNTS = {"label": "label_counts", "prediction": "prediction_counts"}
#: column of the predicted texts
TEXT = "prediction_text"

_counts: dict[float, tuple[int, ...]] = {}
_texts: dict[float, str] = {}


def number(counts: Sequence[int], text: str = "") -> float:
    """The number of these counts, of a text."""
    content = np.asarray(counts, dtype="<i8").tobytes() + text.encode("utf-8", "replace")
    digest = int.from_bytes(hashlib.blake2b(content, digest_size=7).digest(), "big")
    value = FIRST + digest % 2**52
    _counts[value], _texts[value] = tuple(counts), text
    return value


def counts(numbers: ArrayLike) -> NDArray[np.int64]:
    """The counts behind `numbers` (...), (..., counts).

    Raises
    ------
    ValueError
        A number is not known in this process.
    """
    values = np.asarray(numbers, dtype=float)
    distinct, places = np.unique(values, return_inverse=True)
    try:
        known = np.array([_counts[value] for value in distinct.tolist()], dtype=np.int64)
    except KeyError as error:
        raise ValueError(f"{error.args[0]:.0f} is not the number of a text's counts") from None
    return known[places.reshape(values.shape)]


def spelt(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame as its table has it: what is behind its numbers, null beside others."""
    more: dict[str, pd.Series | None] = {}
    for column, name in COUNTS.items():
        if column in frame:
            more[name] = _behind(frame[column], _counts)
    if "prediction" in frame:
        more[TEXT] = _behind(frame["prediction"], _texts)
    return frame.assign(**more)


def _behind(numbers: pd.Series, known: Mapping[float, Any]) -> pd.Series | None:
    """What is `known` of each number; None if none of them is one of counts."""
    values = numbers.astype(float)
    if not (values >= FIRST).any():
        return None
    return pd.Series([known.get(value) for value in values.tolist()], index=numbers.index, dtype=object)


def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame that `spelt` was given; its numbers are known from here on."""
    for column, name in COUNTS.items():
        if name in frame:
            behind = frame.loc[frame[name].notna(), [column, name]].drop_duplicates(column)
            for value, known in zip(behind[column].tolist(), behind[name], strict=True):
                _counts[value] = tuple(known.tolist())
    return frame.drop(columns=[*COUNTS.values(), TEXT], errors="ignore")
