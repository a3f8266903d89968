"""Tables with a row for each element of arrays."""

import numpy as np
import pandas as pd


def elements(*names: str, **arrays: np.ndarray) -> pd.DataFrame:
    """Columns `arrays` of one shape, after a column of places `names` for each of their axes."""
    places = np.indices(next(iter(arrays.values())).shape)
    columns = dict(zip(names, places, strict=True)) | arrays
    return pd.DataFrame({name: np.ravel(column) for name, column in columns.items()})
