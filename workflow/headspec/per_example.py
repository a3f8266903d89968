"""Labels and predictions of examples, as arrays and as columns of tables.

Single numbers are in the column `label` or `prediction`, several in `label_values` or `prediction_values` (as
Arrow lists, because Python lists would take gigabytes); the other column is null.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from headspec.errors import DataError

Floats = NDArray[np.float64]

#: column of lists for each column of single numbers
LISTS = {"label": "label_values", "prediction": "prediction_values"}
#: column of predicted texts
TEXT = "prediction_text"


def columns(name: str, values: ArrayLike, texts: ArrayLike | None = None) -> dict[str, Any]:
    """Return table columns for a `label` or `prediction`, (n,) or (n, values), and predicted texts (n,)."""
    more = {} if texts is None else {TEXT: texts}
    array = np.asarray(values, dtype=float)
    if array.ndim == 1:
        return {name: array} | more
    n, k = array.shape
    lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * k, pa.array(array.ravel()))
    return {name: np.full(n, np.nan), LISTS[name]: pd.arrays.ArrowExtensionArray(lists)} | more


def array(frame: pd.DataFrame, name: str, rows: NDArray[np.intp] | slice = slice(None)) -> Floats:
    """Return what `columns` stored for rows of a task, (n,) or (n, values).

    Raises DataError if the rows have different numbers of values.
    """
    if LISTS[name] not in frame or frame[LISTS[name]].isna().to_numpy()[rows].all():
        return frame[name].to_numpy(dtype=float)[rows]
    lists = pa.array(frame[LISTS[name]], type=pa.list_(pa.float64()), from_pandas=True)
    stored = lists.chunks if isinstance(lists, pa.ChunkedArray) else [lists]
    lengths = np.concatenate([np.diff(part.offsets) for part in stored])[rows]
    if len(several := np.unique(lengths)) > 1:
        some = f"{several[0]} and {several[-1]} values"
        raise DataError(f"{LISTS[name]}: got {some}, expected the same number for every example of a task")
    places = np.arange(len(frame))[rows]
    stacked = np.empty((len(places), several[0]))
    start = 0
    for part in stored:  # joining the parts would double the memory
        here = (places >= start) & (places < start + len(part))
        first = np.asarray(part.offsets)[places[here] - start]
        stacked[here] = np.asarray(part.values)[first[:, None] + np.arange(several[0])]
        start += len(part)
    return stacked


def labels_and_predictions(frame: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the labels and predictions of the rows of one task. Raises as `array`."""
    return array(frame, "label"), array(frame, "prediction")
