"""The places that heads attend to most, in all sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass
class Attended:
    """Places (tokens or words) that heads attend to most, for all places of all sentences in order."""

    offsets: NDArray[np.int32]  # (places, heads), to the place attended to most; 0 is itself
    layer: NDArray[np.int64]  # (heads,)
    head: NDArray[np.int64]  # (heads,)
    sentence: NDArray[np.int64]  # (places,), from 0
    place: NDArray[np.int64]  # (places,), from 0 in each sentence
    length: NDArray[np.int64]  # (places,), number of places in the sentence

    @classmethod
    def from_table(cls, table: pd.DataFrame, unit: str) -> Attended:
        """Read the column `unit` (`tokens` or `words`) of the table 'attended', sorted by its keys."""
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
        """Whether no head ever attends to later places, as in decoders."""
        return not (self.offsets > 0).any()
