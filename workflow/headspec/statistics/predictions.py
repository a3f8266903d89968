"""Predictions of a task for the same examples under several masks."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import per_example
from headspec.errors import DataError

Floats = NDArray[np.float64]


class Predictions(NamedTuple):
    """Predictions of a task, by example."""

    example: NDArray[np.intp]  # (n,), increasing numbers
    label: Floats  # (n,) or (n, values)
    prediction: Floats  # (sets, n) or (sets, n, values)

    @property
    def content(self) -> bytes:
        """Examples and their labels."""
        return np.column_stack([self.example, self.label]).tobytes()


def task_predictions(frame: pd.DataFrame, task: str, sets: pd.MultiIndex, where: str) -> Predictions:
    """Return the predictions of a task under each of `sets`, identified by values of columns of `frame`.

    DataError, which names `where`, if sets lack examples or differ in labels.
    """
    task_rows = np.flatnonzero(frame["task"] == task)
    set_index = sets.get_indexer(pd.MultiIndex.from_frame(frame[list(sets.names)].iloc[task_rows]))
    examples = frame["example"].to_numpy(dtype=np.intp)
    order = np.lexsort((examples[task_rows], set_index))[np.count_nonzero(set_index < 0) :]
    counts = np.bincount(set_index[order], minlength=len(sets))
    n = max(1, counts.max(initial=0))
    for place in np.flatnonzero(counts < n).tolist():
        some = " of some examples" if counts[place] else ""
        named = ", ".join(
            f"{name} {value!r}" if isinstance(value, str) else f"{name} {value:g}"
            for name, value in zip(sets.names, sets[place], strict=True)
        )
        raise DataError(f"{where} lacks predictions{some} with {named}")
    rows = task_rows[order]
    example, label, prediction = (
        values.reshape(len(sets), n, *values.shape[1:])
        for values in (
            examples[rows],
            per_example.array(frame, "label", rows),
            per_example.array(frame, "prediction", rows),
        )
    )
    if (example != example[0]).any() or (label != label[0]).any() or np.isnan(prediction).any():
        raise DataError(f"{where} lacks predictions of some examples under some masks")
    return Predictions(example[0].copy(), label[0].copy(), prediction)  # of one set alone


def unique_keys(rows: pd.DataFrame, names: list[str]) -> pd.MultiIndex:
    """Return the different values of columns in rows, sorted."""
    return pd.MultiIndex.from_frame(rows[names].drop_duplicates()).sort_values()
