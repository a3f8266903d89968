"""Confidence of every head, with and without the tokens that end and separate texts."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.attention import Layers, existing
from headspec.plots.atlas.measures import head_map, heat_maps, panel_size
from headspec.plots.drawing.kinds import shade_gaps
from headspec.plots.drawing.style import SHADES, styled

#: measure: which tokens count
TOKENS = {
    "confidence_with_separator": "all tokens",
    "confidence": "without end token",
    "confidence_no_separator": "without separators",
}


@styled
def draw(heads: pd.DataFrame, tasks: Sequence[str], attention: Layers | None = None) -> Figure:
    """Heat maps of confidence, mean over seeds: a row per task, a column per choice of tokens."""
    columns = [measure for measure in TOKENS if measure in set(heads["measure"])]
    maps = [[head_map(heads, task, measure) for measure in columns] for task in tasks]
    shape = np.array(maps).shape
    figure, grid = heat_maps(shape, tasks, attention=attention)
    highest = np.ceil(10 * np.nanmax(maps)) / 10
    for row, heats in zip(grid, maps, strict=True):
        for axes, heat in zip(row, heats, strict=True):
            image = axes.imshow(heat, cmap=SHADES, vmin=0, vmax=highest, aspect="auto", origin="lower")
            shade_gaps(axes, existing(heat))
    for axes, measure in zip(grid[0], columns, strict=True):
        axes.set_title(TOKENS[measure])
    shrink = min(1, 1.6 / (len(tasks) * panel_size(shape, tasks)[1]))
    bar = figure.colorbar(image, ax=grid, shrink=shrink, aspect=12, pad=0.02)
    bar.set_label("confidence")
    return figure
