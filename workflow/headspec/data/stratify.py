"""Orders of examples in which every prefix keeps the proportions of classes."""

import numpy as np
import pandas as pd


def stratified_order(labels: pd.Series, rng: np.random.Generator) -> np.ndarray:
    """Return positions 0..n-1 in random order; every prefix keeps the proportions of classes."""
    return interleaved(labels, rng.permutation(len(labels)))


def interleaved(labels: pd.Series, order: np.ndarray) -> np.ndarray:
    """Rearrange `order` so that every prefix keeps the proportions of classes.

    Items of a class stay in order. Item i (from 0) of the n_k items of class k is placed at (i + 1/2) / n_k
    of the whole, so that the first m items have m * n_k / n of class k up to rounding.
    """
    by_class = labels.iloc[order].reset_index(drop=True)
    groups = by_class.groupby(by_class)
    place = (groups.cumcount() + 0.5) / groups.transform("size")
    return order[np.argsort(place.to_numpy(), kind="stable")]
