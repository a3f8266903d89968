"""How measures of every head change from one way of training to another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.plots.atlas.measures import NAMES, SIGNED, Floats, head_map, heat_maps, panel_size
from headspec.plots.drawing.style import legend, styled

#: measure: unit of its difference
UNITS = {
    "importance": "share of the sum (points)",
    "confidence": "difference",
    "ablation": "difference of loss",
}
#: least decrease that is marked, relative to the largest change
MARKED = 0.1
#: longest dash of a mark, in points
LONGEST = 6


@styled
def draw(before: pd.DataFrame, after: pd.DataFrame, tasks: Sequence[str]) -> Figure:
    """Heat maps of after minus before, mean over seeds: a row per task, a column per measure.

    Importance is shown as a share of the sum over all heads, because the scale of gradients changes in
    training.

    Parameters
    ----------
    before, after : rows of the table 'heads' of one model, mixture and method each
    tasks : in the order of the rows
    """
    measures = [m for m in UNITS if m in set(before["measure"]) & set(after["measure"])]
    maps = np.array([[_change(before, after, task, m) for m in measures] for task in tasks])
    figure, grid = heat_maps(maps.shape, tasks)
    mark = min(0.6 * 72 * min(panel_size(maps.shape, tasks) / maps.shape[:1:-1]), LONGEST)
    for column, measure in enumerate(measures):
        largest = np.nanmax(np.abs(maps[:, column])) or 1
        for axes, change in zip(grid[:, column], maps[:, column], strict=True):
            image = axes.imshow(
                change, cmap=SIGNED, vmin=-largest, vmax=largest, aspect="auto", origin="lower"
            )
            layer, head = np.nonzero(change < -MARKED * largest)
            axes.scatter(head, layer, mark**2, color="black", marker="_", linewidth=0.6, label="decrease")
        grid[0, column].set_title(NAMES[measure])
        bar = figure.colorbar(
            image,
            ax=grid[:, column],
            location="bottom",
            aspect=16,
            shrink=0.8,
            pad=0.03,
            ticks=MaxNLocator(4),
        )
        bar.set_label(UNITS[measure])
    legend(figure)
    return figure


def _change(before: pd.DataFrame, after: pd.DataFrame, task: str, measure: str) -> Floats:
    """After minus before (layers, heads)."""
    maps = [head_map(frame, task, measure) for frame in (before, after)]
    if measure == "importance":
        maps = [100 * heat / (heat.sum() or 1) for heat in maps]
    return maps[1] - maps[0]
