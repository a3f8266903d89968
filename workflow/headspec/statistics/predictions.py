"""Predictions of a task for the same examples under several masks, from the rows of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import per_example
from headspec.errors import DataError

Floats = NDArray[np.float64]


class Predictions(NamedTuple):
    """Predictions of a task, by example.

    Attributes
    ----------
    example : (n,), their numbers, increasing
    label : (n,) or (n, values)
    prediction : (sets, n) or (sets, n, values)
    """

    example: NDArray[np.intp]
    label: Floats
    prediction: Floats

    @property
    def content(self) -> bytes:
        """Examples and their labels."""
        return np.column_stack([self.example, self.label]).tobytes()


def of_sets(frame: pd.DataFrame, task: str, sets: pd.MultiIndex, where: str) -> Predictions:
    """The predictions of a task in a table.

    Parameters
    ----------
    sets : values of the columns that tell sets of predictions apart, which it names; rows of others are
        left out
    where : what is read, for errors

    Raises
    ------
    DataError
        Sets have no predictions of some examples, or other labels.
    """
    of_task = np.flatnonzero(frame["task"] == task)
    of_set = sets.get_indexer(pd.MultiIndex.from_frame(frame[list(sets.names)].iloc[of_task]))
    examples = frame["example"].to_numpy(dtype=np.intp)
    order = np.lexsort((examples[of_task], of_set))[np.count_nonzero(of_set < 0) :]
    counts = np.bincount(of_set[order], minlength=len(sets))
    n = max(1, counts.max(initial=0))
    for place in np.flatnonzero(counts < n).tolist():
        some = " of some examples" if counts[place] else ""
        named = ", ".join(
            f"{name} {value!r}" if isinstance(value, str) else f"{name} {value:g}"
            for name, value in zip(sets.names, sets[place], strict=True)
        )
        raise DataError(f"{where} lacks predictions{some} with {named}")
    rows = of_task[order]
    example, label, prediction = (
        of.reshape(len(sets), n, *of.shape[1:])
        for of in (
            examples[rows],
            per_example.array(frame, "label", rows),
            per_example.array(frame, "prediction", rows),
        )
    )
    if (example != example[0]).any() or (label != label[0]).any() or np.isnan(prediction).any():
        raise DataError(f"{where} lacks predictions of some examples under some masks")
    return Predictions(example[0].copy(), label[0].copy(), prediction)  # of one set alone


def distinct(rows: pd.DataFrame, names: list[str]) -> pd.MultiIndex:
    """The different values of columns in rows, sorted."""
    return pd.MultiIndex.from_frame(rows[names].drop_duplicates()).sort_values()
