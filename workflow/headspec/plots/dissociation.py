"""Dissociation of every task of every mixture, by every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from headspec.config.methods import METHODS
from headspec.config.table_values import MEAN
from headspec.plots.drawing.style import (
    at_fraction,
    draw_intervals,
    heights,
    interval_label,
    legend,
    mixture_panels,
    styled,
)

BARS = {name: method.bar for name, method in METHODS.items() if method.bar}
#: a single seed, and the mark of a value at chance, outlined in white so that no line hides it
DOT: dict[str, Any] = {
    "label": "one seed",
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.4,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.5,
}
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
#: the mark of a model that learnt nothing
CROSS: dict[str, Any] = DAGGER | {
    "label": "unpruned model at chance: D counts for nothing",
    "marker": "x",
    "markersize": 4,
    "markeredgewidth": 1,
}


@styled
def draw(
    combined: pd.DataFrame,
    dissociation: pd.DataFrame,
    mixtures: Mapping[str, Sequence[str]],
    fraction: float,
    distinct: float,
) -> Figure:
    """Bars of dissociation with intervals, a block per mixture and a panel per model.

    Parameters
    ----------
    combined : table 'combined'
        Bars, intervals and marks of values at chance.
    dissociation : table 'dissociation'
        Single seeds, shown as dots.
    mixtures : mixture: its tasks, in the order of the rows
    fraction : main fraction of heads to prune
    distinct : mean dissociation (fraction) that counts as distinct, shown as a line
    """
    figure, panels, rows = mixture_panels(combined, mixtures, "dissociation D (%)")
    methods = [method for method in BARS if method in set(combined["method"])]
    seeds = _with_mean(at_fraction(dissociation, fraction))
    for model, axes in panels.items():
        axes.axvline(0, color="black", linewidth=0.6)
        line = f"distinct: {100 * distinct:.3g} %"
        axes.axvline(100 * distinct, color="black", linestyle=(0, (4, 2)), label=line)
        for lane, method in enumerate(methods):
            bars, dots = (t[(t["model"] == model) & (t["method"] == method)] for t in (combined, seeds))
            ys = heights(rows, bars, lane, len(methods))
            axes.barh(ys, 100 * bars["dissociation"], 0.8 / len(methods), label=method, **BARS[method])
            draw_intervals(axes, ys, bars, interval_label(combined))
            axes.plot(100 * dots["dissociation"], heights(rows, dots, lane, len(methods)), **DOT)
            mark_chance(axes, bars, ys)
    legend(figure)
    return figure


def _with_mean(dissociation: pd.DataFrame) -> pd.DataFrame:
    """Add the mean over the tasks of each run to the rows of single seeds."""
    run = ["model", "mixture", "method", "seed"]
    means = dissociation.groupby(run, as_index=False)["dissociation"].mean(skipna=False).assign(task=MEAN)
    return pd.concat([dissociation[[*run, "task", "dissociation"]], means])


def mark_chance(axes: Axes, results: pd.DataFrame, ys: NDArray[Any]) -> None:
    """Mark the rows of a table (at `ys`) whose models are at chance, to the right of everything in `axes`."""
    pruned, unpruned = (results[name].eq(True).to_numpy() for name in ("at_chance", "unpruned_at_chance"))
    for marked, look in ((pruned & ~unpruned, DAGGER), (unpruned, CROSS)):
        if n := np.count_nonzero(marked):
            x = np.full(n, 1.03)
            axes.plot(x, ys[marked], transform=axes.get_yaxis_transform(), clip_on=False, **look)
