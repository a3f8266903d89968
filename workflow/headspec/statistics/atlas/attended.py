"""The places that heads attend to most, as arrays over all places of all sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass
class Attended:
    """Where heads attend most, for all places (tokens or words) of all sentences, one after the other.

    Attributes
    ----------
    offsets : (places, heads), from the attending place to the one it attends to most; 0 is itself
    layer, head : (heads,)
    sentence, place : (places,), number of the sentence and of the place in it, from 0
    length : (places,), number of places in the sentence
    """

    offsets: NDArray[np.int32]
    layer: NDArray[np.int64]
    head: NDArray[np.int64]
    sentence: NDArray[np.int64]
    place: NDArray[np.int64]
    length: NDArray[np.int64]

    @classmethod
    def from_table(cls, table: pd.DataFrame, unit: str) -> Attended:
        """From a column, `tokens` or `words`, of the table 'attended', sorted by its keys."""
        places = table[["layer", "head"]].drop_duplicates()
        heads = len(places)
        lengths = table[unit].str.len().to_numpy()[::heads]
        parts = np.split(np.concatenate(table[unit].tolist()), np.cumsum(lengths)[:-1] * heads)
        offsets = [part.reshape(heads, length) for part, length in zip(parts, lengths, strict=True)]
        return cls(
            np.ascontiguousarray(np.concatenate(offsets, axis=-1).T),
            places["layer"].to_numpy(),
            places["head"].to_numpy(),
            np.repeat(np.arange(len(lengths)), lengths),
            np.concatenate([np.arange(length) for length in lengths]),
            np.repeat(lengths, lengths),
        )

    @property
    def causal(self) -> bool:
        """Whether no head ever attends to what follows, as in decoders."""
        return not (self.offsets > 0).any()
