"""Change of measures of every head from one method of training to another."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.atlas.measures import BAR, Floats, draw_signed, head_map, heat_maps, panel_size
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
def draw(
    heads: pd.DataFrame, method: str, before: str, tasks: Sequence[str], labels: Mapping[str, str]
) -> Figure:
    """Heat maps of `method` minus `before`, mean over seeds: a row per task, a column per measure.

    Importance is a share of the sum over all heads, as training changes the scale of gradients.
    """
    old, new = heads[heads["method"] == before], heads[heads["method"] == method]
    measures = [measure for measure in UNITS if measure in {*old["measure"]} & {*new["measure"]}]
    maps = np.array([[_change(old, new, task, measure) for measure in measures] for task in tasks])
    figure, grid = heat_maps(maps.shape, tasks, BAR)
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
