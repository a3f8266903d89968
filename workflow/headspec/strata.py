"""Orders of examples that keep the shares of classes."""

from __future__ import annotations

import numpy as np
import pandas as pd


def stratified_order(labels: pd.Series, rng: np.random.Generator) -> np.ndarray:
    """Positions 0..n-1 in a random order whose every beginning has the classes in their shares."""
    return interleaved(labels, rng.permutation(len(labels)))


def interleaved(labels: pd.Series, order: np.ndarray) -> np.ndarray:
    """Positions in `order`, but so that every beginning has the classes in their shares.

    The i-th of a class's n_k items, in that order, comes at (i + 1/2) / n_k of the whole, so the
    first m items hold m * n_k / n of class k up to rounding, and of a rare class none too early.
    """
    by_class = labels.iloc[order].reset_index(drop=True)
    groups = by_class.groupby(by_class)
    place = (groups.cumcount() + 0.5) / groups.transform("size")
    return order[np.argsort(place.to_numpy(), kind="stable")]
