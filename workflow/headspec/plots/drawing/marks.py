"""Marks of single seeds, and of values at chance."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

#: a single seed
DOT: dict[str, Any] = {
    "label": "one seed",
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.4,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.5,
}
#: a value at chance, outlined in white so that no line hides it
DAGGER: dict[str, Any] = {
    "label": "at chance: D means little",
    "linestyle": "none",
    "marker": r"$\dagger$",
    "markersize": 5,
    "color": "black",
    "markeredgewidth": 0.3,
    "zorder": 5,
    "path_effects": [withStroke(linewidth=2.5, foreground="white")],
}
#: a model that learnt nothing
CROSS: dict[str, Any] = DAGGER | {
    "label": "unpruned model at chance: D counts for nothing",
    "marker": "x",
    "markersize": 4,
    "markeredgewidth": 1,
}


def mark_chance(axes: Axes, results: pd.DataFrame, ys: NDArray[Any]) -> None:
    """Mark the rows of a table (at `ys`) whose models are at chance, to the right of everything in `axes`."""
    pruned, unpruned = (results[name].eq(True).to_numpy() for name in ("at_chance", "unpruned_at_chance"))
    for marked, look in ((pruned & ~unpruned, DAGGER), (unpruned, CROSS)):
        if n := np.count_nonzero(marked):
            x = np.full(n, 1.03)
            axes.plot(x, ys[marked], transform=axes.get_yaxis_transform(), clip_on=False, **look)
