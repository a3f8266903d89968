"""Heat maps of heads and grids of panels for figures of single heads."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from headspec.attention import Layers, as_array, existing
from headspec.plots.drawing.kinds import divide, number_layers, shade_gaps
from headspec.plots.drawing.style import PAGE, SIGNED

Floats = NDArray[np.float64]
Panels = tuple[Figure, list[Axes]]
Grid = tuple[Figure, NDArray[np.object_]]

#: height of all heat maps of a figure together, in inches
TALLEST = 7.8
#: height of a colour bar, its ticks and its label, and of a legend under it, in inches
BAR = 0.6


def head_map(heads: pd.DataFrame, task: str, measure: str) -> Floats:
    """Values (layers, heads) of a measure on a task, mean over seeds; nan where there is no head."""
    rows = heads[(heads["task"] == task) & (heads["measure"] == measure)]
    return as_array(rows.groupby(["layer", "head"])["value"].mean())


def rows_of(n: int, most: int = 3) -> tuple[int, int]:
    """Rows and columns of `n` panels: fewest rows of at most `most` columns, then fewest columns."""
    rows = math.ceil(n / most)
    return rows, math.ceil(n / rows)


def panels(shape: tuple[int, int], n: int, width: float, height: float, below: float) -> Panels:
    """A figure with the first `n` panels of (rows, columns); sizes of a panel and of the legend in inches."""
    size = (width * shape[1], below + height * shape[0])
    figure = Figure(figsize=size, layout="constrained")
    grid = list(figure.subplots(*shape, squeeze=False).ravel())
    for axes in grid[n:]:
        axes.remove()
    return figure, grid[:n]


def number_heads(axes: Axes, attention: Layers | None = None) -> None:
    """Number layers and heads at the sides of a heat map."""
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    number_layers(axes, attention)


def panel_size(shape: tuple[int, ...], rows: Sequence[str]) -> Floats:
    """Width and height in inches of each of the heat maps (rows, columns, layers, heads)."""
    _, columns, layers, in_layer = shape
    width = min(2.2, (PAGE - 1.1) / columns - 0.1)
    written = 0.055 * max(map(len, rows)) + 0.1  # the names of the rows, upright
    return np.array([width, min(max(width * layers / in_layer, written, 0.7), TALLEST / len(rows))])


def heat_maps(
    shape: tuple[int, ...], rows: Sequence[str], below: float = 0, attention: Layers | None = None
) -> Grid:
    """A figure of heat maps (rows, columns, layers, heads) with shared axes and `below` inches under them."""
    width, height = panel_size(shape, rows)
    size = (shape[1] * (width + 0.1) + 1.1, len(rows) * (height + 0.1) + 0.7 + below)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(*shape[:2], sharex=True, sharey=True, squeeze=False)
    for axes, name in zip(grid[:, 0], rows, strict=True):
        axes.set_ylabel(f"{name}\nlayer")
    for axes in grid[-1]:
        axes.set_xlabel("head")
    for axes in grid.flat:
        number_heads(axes, attention)
        divide(axes, attention, named=axes in grid[:, -1])
    return figure, grid


def draw_signed(column: NDArray[np.object_], maps: Sequence[Floats], unit: str) -> float:
    """Draw maps in a column on one scale around 0; return the largest absolute value, 1 if all are 0."""
    largest = float(np.nanmax(np.abs(maps))) or 1.0
    for axes, values in zip(column, maps, strict=True):
        image = axes.imshow(values, cmap=SIGNED, vmin=-largest, vmax=largest, aspect="auto", origin="lower")
        shade_gaps(axes, existing(values))
    ticks = MaxNLocator(3, symmetric=True)
    bar = column[0].figure.colorbar(
        image, ax=column, location="bottom", aspect=20, shrink=0.8, pad=0.03, ticks=ticks
    )
    bar.set_label(unit)
    return largest
