"""Means over folds of examples, from which uncertainty is estimated."""

from __future__ import annotations

import numpy as np
import pandas as pd


def fold_means(folds: int, **values: np.ndarray) -> pd.DataFrame:
    """Means of head measures over the examples of each fold; example i is in fold i % `folds`.

    Parameters
    ----------
    folds : no more are made than there are examples
    values : measure: (n, layers, heads)

    Returns
    -------
    frame : a row per fold x layer x head; columns fold, layer, head, n (examples in the fold), and `values`
    """
    n, *shape = next(iter(values.values())).shape
    numbers = range(min(folds, n))
    fold, layer, head = (index.ravel() for index in np.indices((len(numbers), *shape)))
    sizes = np.array([len(range(number, n, folds)) for number in numbers])
    means = {
        name: np.stack([of_measure[number::folds].mean(axis=0, dtype=float) for number in numbers]).ravel()
        for name, of_measure in values.items()
    }
    return pd.DataFrame({"fold": fold, "layer": layer, "head": head, "n": sizes[fold], **means})
