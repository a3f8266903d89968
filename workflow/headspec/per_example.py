"""Labels and predictions of examples: one number for each, or several, as arrays and as columns of tables.

In frames and tables, one number stands in the column `label` or `prediction`; of several there is a list in
`label_values` or `prediction_values`, and the other column is null. Lists stay in Arrow's memory: a list of
Python for each of millions of rows would take gigabytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from headspec.errors import DataError

Floats = NDArray[np.float64]

#: column of numbers: that of lists
LISTS = {"label": "label_values", "prediction": "prediction_values"}
#: column of the predicted texts
TEXT = "prediction_text"


def columns(name: str, values: ArrayLike, texts: ArrayLike | None = None) -> dict[str, Any]:
    """The columns of a frame for a `label` or `prediction`, (n,) or (n, values), and predicted texts (n,)."""
    more = {} if texts is None else {TEXT: texts}
    array = np.asarray(values, dtype=float)
    if array.ndim == 1:
        return {name: array} | more
    n, k = array.shape
    lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * k, pa.array(array.ravel()))
    return {name: np.full(n, np.nan), LISTS[name]: pd.arrays.ArrowExtensionArray(lists)} | more


def array(rows: pd.DataFrame, name: str) -> Floats:
    """What `columns` was given, of the rows of one task.

    Raises
    ------
    DataError
        Examples have different numbers of values.
    """
    if LISTS[name] not in rows or rows[LISTS[name]].isna().all():
        return rows[name].to_numpy(dtype=float)
    lists = pa.array(rows[LISTS[name]], type=pa.list_(pa.float64()), from_pandas=True)
    lengths = pc.unique(pc.list_value_length(lists)).to_pylist()
    if len(lengths) > 1:
        raise DataError(f"{LISTS[name]}: got {lengths} values, expected as many for every example of a task")
    return np.asarray(pc.list_flatten(lists)).reshape(len(rows), -1)
