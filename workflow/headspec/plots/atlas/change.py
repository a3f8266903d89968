"""How measures of every head change from one way of training to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.atlas.measures import Floats, draw_signed, head_map, panel_size, signed_maps
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


def from_tables(
    heads: pd.DataFrame, method: str, before: str, tasks: Sequence[str], labels: Mapping[str, str]
) -> Figure:
    """`draw` of the methods `before` and `method`, of one model and mixture."""
    return draw(heads[heads["method"] == before], heads[heads["method"] == method], tasks, labels)


@styled
def draw(
    before: pd.DataFrame, after: pd.DataFrame, tasks: Sequence[str], labels: Mapping[str, str]
) -> Figure:
    """Heat maps of after minus before, mean over seeds: a row per task, a column per measure.

    Importance is shown as a share of the sum over all heads, because the scale of gradients changes in
    training.

    Parameters
    ----------
    before, after : rows of the table 'heads' of one model, mixture and method each
    tasks : in the order of the rows
    labels : measure: its name in the figure
    """
    measures = [m for m in UNITS if m in set(before["measure"]) & set(after["measure"])]
    maps = np.array([[_change(before, after, task, m) for m in measures] for task in tasks])
    figure, grid = signed_maps(maps.shape, tasks)
    mark = min(0.6 * 72 * min(panel_size(maps.shape, tasks) / maps.shape[:1:-1]), LONGEST)
    for index, (column, measure) in enumerate(zip(grid.T, measures, strict=True)):
        changes = list(maps[:, index])
        largest = draw_signed(column, changes, UNITS[measure])
        for axes, change in zip(column, changes, strict=True):
            layer, head = np.nonzero(change < -MARKED * largest)
            axes.scatter(head, layer, mark**2, color="black", marker="_", linewidth=0.6, label="decrease")
        column[0].set_title(labels[measure])
    legend(figure)
    return figure


def _change(before: pd.DataFrame, after: pd.DataFrame, task: str, measure: str) -> Floats:
    """After minus before (layers, heads)."""
    maps = [head_map(frame, task, measure) for frame in (before, after)]
    if measure == "importance":
        maps = [100 * heat / (np.nansum(heat) or 1) for heat in maps]
    return maps[1] - maps[0]
