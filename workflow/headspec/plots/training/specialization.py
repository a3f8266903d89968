"""Dissociation of every task before and after IAT, and the difference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.config.values import MEAN
from headspec.plots.drawing.marks import DOT, mark_chance
from headspec.plots.drawing.style import at_fraction, draw_intervals, legend, styled

#: method: (legend entry, look of its bars), in their order
BARS: dict[str, tuple[str, dict[str, Any]]] = {
    "tuned": ("before IAT (MTL)", {"facecolor": "#e8eef4", "edgecolor": "black"}),
    "iat": ("after IAT", {"facecolor": "#4292c6", "edgecolor": "black"}),
}
HEIGHT = 0.4  # of a bar, in rows


@styled
def draw(
    specialization: pd.DataFrame,
    combined: pd.DataFrame,
    dissociation: pd.DataFrame,
    tasks: Sequence[str],
    fraction: float,
) -> Figure:
    """Bars of dissociation before and after IAT on the left, differences on the right, the mean on top.

    Differences have paired intervals, bars have theirs, and dots are single seeds.
    """
    rows = [MEAN, *tasks]
    label_width = max(0.5, 0.058 * max(map(len, rows)))
    figure = Figure(figsize=(label_width + 4.6, 0.95 + 0.27 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.35, 1])
    for axes, label in ((left, "dissociation D (%)"), (right, "after minus before (points)")):
        axes.axvline(0, color="black", linewidth=0.6)
        axes.axhline(0.5, color="0.7", linewidth=0.5)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(label)
    seeds = at_fraction(dissociation, fraction).pivot(
        index=["method", "seed"], columns="task", values="dissociation"
    )
    seeds[MEAN] = seeds[list(tasks)].mean(axis=1, skipna=False)
    for lane, (method, (label, look)) in enumerate(BARS.items()):
        bars = combined[combined["method"] == method].set_index("task").loc[rows]
        ys = np.arange(len(rows)) + HEIGHT * (lane - 0.5)
        left.barh(ys, 100 * bars["dissociation"], HEIGHT, label=label, **look)
        draw_intervals(left, ys, bars)
        for _, values in seeds.loc[method].iterrows():
            left.plot(100 * values[rows], ys, **DOT)
    differences = specialization.set_index("task").loc[rows]
    _draw_differences(right, differences, seeds, rows)
    mark_chance(right, differences, np.arange(len(differences)))
    left.set_yticks(range(len(rows)), rows)
    left.set_ylim(len(rows) - 0.4, -0.6)
    left.get_yticklabels()[0].set_fontweight("bold")
    legend(figure)
    return figure


def _draw_differences(
    axes: Axes, differences: pd.DataFrame, seeds: pd.DataFrame, rows: Sequence[str]
) -> None:
    """Draw the means and intervals of the differences, and the differences of single seeds."""
    ys = np.arange(len(rows))
    draw_intervals(axes, ys, differences)
    mean: dict[str, Any] = {"marker": "D", "linestyle": "none", "color": "black", "zorder": 4}
    axes.plot(100 * differences["difference"], ys, label="mean over seeds", **mean)
    method, values = seeds.index.get_level_values("method"), seeds[list(rows)].to_numpy()
    for change in values[method == "iat"] - values[method == "tuned"]:
        axes.plot(100 * change, ys + 0.24, **DOT)
    axes.margins(x=0.08)
