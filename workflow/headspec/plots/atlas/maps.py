"""Heat maps of measures of every head: confidence, changes by training, and differences between tasks."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from headspec.head_arrays import Layers, as_array, existing
from headspec.plots.drawing.heat_maps import divide, number_layers, shade_gaps
from headspec.plots.drawing.style import PAGE, SHADES, SIGNED, legend, styled
from headspec.statistics.intervals import decisive
from headspec.statistics.resampling import SIGNIFICANCE

Floats = NDArray[np.float64]
Panels = tuple[Figure, list[Axes]]
Grid = tuple[Figure, NDArray[np.object_]]

#: maximum total height of the heat maps of a figure, in inches
TALLEST = 7.8
#: height of a colour bar with ticks and label, and of a legend under it, in inches
BAR = 0.6


def head_map(heads: pd.DataFrame, task: str, measure: str) -> Floats:
    """Return values (layers, heads) of a measure on a task, mean over seeds; nan where there is no head."""
    rows = heads[(heads["task"] == task) & (heads["measure"] == measure)]
    return as_array(rows.groupby(["layer", "head"])["value"].mean())


def rows_of(n: int, most: int = 3) -> tuple[int, int]:
    """Return rows and columns for `n` panels: fewest rows of at most `most`, then fewest columns."""
    rows = math.ceil(n / most)
    return rows, math.ceil(n / rows)


def panels(shape: tuple[int, int], n: int, width: float, height: float, below: float) -> Panels:
    """Return a figure with `n` panels in a grid of `shape`; sizes of panel and legend are in inches."""
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
    """Return width and height in inches of each heat map in a grid (rows, columns, layers, heads)."""
    _, columns, layers, in_layer = shape
    width = min(2.2, (PAGE - 1.1) / columns - 0.1)
    written = 0.055 * max(map(len, rows)) + 0.1  # names of rows, rotated
    return np.array([width, min(max(width * layers / in_layer, written, 0.7), TALLEST / len(rows))])


def heat_maps(
    shape: tuple[int, ...], rows: Sequence[str], below: float = 0, attention: Layers | None = None
) -> Grid:
    """Return a figure for heat maps (rows, columns, layers, heads), with `below` inches of space."""
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
    """Draw a column of maps on one scale around 0; return their largest size, or 1 if all are 0."""
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


#: measure: unit of its difference
CHANGE_UNITS = {
    "importance": "share of the sum (points)",
    "confidence": "difference",
    "ablation": "difference of loss",
}
#: smallest decrease that is marked, relative to the largest change
MARKED = 0.1
#: longest dash of a mark, in points
CHANGE_LONGEST = 6


@styled
def draw_change(
    heads: pd.DataFrame, method: str, before: str, tasks: Sequence[str], labels: Mapping[str, str]
) -> Figure:
    """Draw heat maps of `method` minus `before`, mean over seeds: a row per task, a column per measure.

    Importance is a share of the sum over all heads, as training changes the scale of gradients. Decreases by
    more than `MARKED` of the largest change have a dash.
    """
    old, new = heads[heads["method"] == before], heads[heads["method"] == method]
    measures = [measure for measure in CHANGE_UNITS if measure in {*old["measure"]} & {*new["measure"]}]
    maps = np.array([[_change(old, new, task, measure) for measure in measures] for task in tasks])
    figure, grid = heat_maps(maps.shape, tasks, BAR)
    mark = min(0.6 * 72 * min(panel_size(maps.shape, tasks) / maps.shape[:1:-1]), CHANGE_LONGEST)
    for index, (column, measure) in enumerate(zip(grid.T, measures, strict=True)):
        changes = list(maps[:, index])
        largest = draw_signed(column, changes, CHANGE_UNITS[measure])
        for axes, change in zip(column, changes, strict=True):
            layer, head = np.nonzero(change < -MARKED * largest)
            axes.scatter(head, layer, mark**2, color="black", marker="_", linewidth=0.6, label="decrease")
        column[0].set_title(labels[measure])
    legend(figure)
    return figure


def _change(before: pd.DataFrame, after: pd.DataFrame, task: str, measure: str) -> Floats:
    """Return after minus before, (layers, heads); importance is in per cent of its sum."""
    maps = [head_map(frame, task, measure) for frame in (before, after)]
    if measure == "importance":
        maps = [100 * heat / (np.nansum(heat) or 1) for heat in maps]
    return maps[1] - maps[0]


#: measure: which tokens count
TOKENS = {
    "confidence_with_separator": "all tokens",
    "confidence": "without end token",
    "confidence_no_separator": "without separators",
}


@styled
def draw_confidence(heads: pd.DataFrame, tasks: Sequence[str], attention: Layers | None = None) -> Figure:
    """Draw heat maps of confidence, mean over seeds: a row per task, a column per choice of tokens."""
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


#: measure: unit of its difference, and factor to it
DIFFERENCE_UNITS = {
    "importance": ("share of the sum (points)", 100),
    "ablation_size": ("share of the sum (points)", 100),
    "relevance": ("share of the layer (points)", 100),
    "confidence": ("attention weight (points)", 100),
}
#: sign of a significant difference: marker, legend entry
DIFFERENCE_MARKS = {1: ("+", f"more, p < {SIGNIFICANCE}"), -1: ("_", f"less, p < {SIGNIFICANCE}")}
#: longest stroke of a mark, in points
DIFFERENCE_LONGEST = 5


@styled
def draw_differences(
    differences: pd.DataFrame, labels: Mapping[str, str], attention: Layers | None = None
) -> Figure:
    """Draw heat maps of a task minus the other, or of each minus the mean of others; a column per measure."""
    pairs = list(dict.fromkeys(zip(differences["task"], differences["against"], strict=True)))
    names = [f"{task}\n\N{MINUS SIGN} {against}" for task, against in pairs]
    measures = [measure for measure in DIFFERENCE_UNITS if measure in set(differences["measure"])]
    shape = (len(pairs), len(measures), differences["layer"].max() + 1, differences["head"].max() + 1)
    figure, grid = heat_maps(shape, names, BAR, attention)
    longest = min(0.6 * 72 * min(panel_size(shape, names) / shape[:1:-1]), DIFFERENCE_LONGEST)
    for column, measure in zip(grid.T, measures, strict=True):
        unit, factor = DIFFERENCE_UNITS[measure]
        rows = differences[differences["measure"] == measure].set_index(["task", "against"])
        heads_by_pair = [rows.loc[[pair]] for pair in pairs]
        maps = [as_array(heads.set_index(["layer", "head"])["difference"]) for heads in heads_by_pair]
        draw_signed(column, [factor * values for values in maps], unit)
        for axes, heads in zip(column, heads_by_pair, strict=True):
            _mark_differences(axes, heads, longest)
        column[0].set_title(labels[measure])
    legend(figure)
    return figure


def _mark_differences(axes: Axes, heads: pd.DataFrame, longest: float) -> None:
    """Mark heads with a significant difference by its sign."""
    clear = heads[decisive(heads) < SIGNIFICANCE]
    for sign, (marker, label) in DIFFERENCE_MARKS.items():
        chosen = clear[np.sign(clear["difference"]) == sign]
        axes.scatter(
            chosen["head"], chosen["layer"], longest**2, color="black", marker=marker, linewidth=0.6,
            label=label,
        )  # fmt: skip
