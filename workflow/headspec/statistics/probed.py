"""Counts of the units that the probes of single heads get right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: which heads: the best of each label, or all of them
BEST, MEAN = "best", "mean"


class Counts(NamedTuple):
    """Number of units that probes get right; a probe is a head, or a head in one direction."""

    right: Floats  # (labels, folds, probes)
    n: Floats  # (labels, folds)

    def chosen_right(self, heads: str, by: Counts) -> Floats:
        """Right units (labels, folds) of the `MEAN` of all probes, or of the `BEST` of each label.

        The best by the counts `by` is chosen on the other half of the folds. All labels, which come first,
        are the sum of the others, each with its own best probe.
        """
        if heads == MEAN:
            return self.right.mean(axis=2)
        half = np.arange(self.n.shape[1]) % 2
        right = np.empty_like(self.n)
        for side in (0, 1):
            best = by.right[:, half != side].sum(axis=1).argmax(axis=1)[:, None, None]
            here = half == side
            right[:, here] = np.take_along_axis(self.right[:, here], best, axis=2)[..., 0]
        right[0] = right[1:].sum(axis=0)
        return right


class Probed(NamedTuple):
    """Counts of one table 'probed'."""

    found: Counts
    controls: list[Counts]  # one for each random labelling
    labels: list[str | None]  # the first is None, all labels

    @classmethod
    def from_table(cls, table: pd.DataFrame) -> Probed:
        """Read rows of the schema `PROBED`."""
        label, labels = pd.factorize(table["label"], sort=True)
        direction = pd.factorize(table["direction"], sort=True)[0]  # -1 where heads have none
        places = np.stack([direction, table["layer"], table["head"]])
        probe = np.unique(places, axis=1, return_inverse=True)[1].reshape(-1)
        at = label, table["fold"].to_numpy(), probe
        shape = len(labels), table["fold"].max() + 1, probe.max() + 1

        def counts(right: Any, n: Any) -> Counts:
            found = np.zeros((2, *shape))
            found[0][at], found[1][at] = right, n
            right, n = np.concatenate([found.sum(axis=1, keepdims=True), found], axis=1)
            return Counts(right, n.max(axis=2))

        lists = (np.array(table[name].tolist()).T for name in ("control", "n_control"))
        controls = zip(*lists, strict=True)
        return cls(
            counts(table["right"], table["n"]), [counts(*control) for control in controls], [None, *labels]
        )
