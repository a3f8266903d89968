"""Means over folds of examples, from which uncertainty is estimated."""

from __future__ import annotations

import numpy as np
import pandas as pd

from headspec.attention import existing


def fold_means(folds: int, **values: np.ndarray) -> pd.DataFrame:
    """Return means of head measures over each fold; example i is in fold i % `folds`.

    Parameters
    ----------
    folds : no more are made than there are examples
    values : measure: (n, layers, heads), nan where there is no head

    Returns
    -------
    frame : a row per fold x layer x head that exists; columns fold, layer, head, n (examples in the fold),
        and `values`
    """
    first = next(iter(values.values()))
    n, exists = len(first), existing(first[0])
    numbers = range(min(folds, n))
    fold, layer, head = np.nonzero(np.broadcast_to(exists, (len(numbers), *exists.shape)))
    sizes = np.array([len(range(number, n, folds)) for number in numbers])
    means = {
        name: np.stack([measured[i::folds].mean(axis=0, dtype=float)[exists] for i in numbers]).ravel()
        for name, measured in values.items()
    }
    return pd.DataFrame({"fold": fold, "layer": layer, "head": head, "n": sizes[fold], **means})
