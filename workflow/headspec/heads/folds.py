"""Means of head measures over folds of examples; their spread gives uncertainty."""

from __future__ import annotations

import numpy as np
import pandas as pd

from headspec.attention import existing


def fold_means(folds: int, **values: np.ndarray) -> pd.DataFrame:
    """Return means over each fold, a row per fold, layer and existing head; example i is in fold i % `folds`.

    `values` maps measures to (n, layers, heads), nan where there is no head. Columns are fold, layer, head, n
    (examples) and `values`. There are no more folds than examples.
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
