"""Agreement of any two measures on the heads that matter."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots.drawing.style import PAGE, SIGNED, number, styled

#: side of a cell in inches, at most, and the least one with room for small print
CELL, ROOM = 0.55, 0.36


@styled
def draw(agreement: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """A matrix of measures: Spearman correlation below the diagonal, overlap of the top heads above it.

    Cells show the mean over tasks with its range in small print; for one task, its value and interval.
    """
    shown = {*agreement["measure_a"], *agreement["measure_b"]}
    measures = [measure for measure in labels if measure in shown]
    names = [labels[measure] for measure in measures]
    label_width = 0.15 + 0.053 * max(map(len, names))
    side = min(CELL, (PAGE - label_width) / len(measures))
    extent = side * len(measures)
    size = (max(label_width + extent, 3.2), extent + label_width + 0.2)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    values = np.full((len(measures), len(measures)), np.nan)
    place = {measure: index for index, measure in enumerate(measures)}
    for pair, rows in agreement.groupby(["measure_a", "measure_b"]):
        first, second = sorted(place[str(measure)] for measure in pair)
        for column, cell in (("spearman", (second, first)), ("top_overlap", (first, second))):
            values[cell] = rows[column].mean()
            _write(axes, cell, rows, column, small=side >= ROOM)
    axes.imshow(values, cmap=SIGNED, vmin=-1, vmax=1)
    axes.set_facecolor("0.9")  # of the diagonal
    axes.set_xticks(range(len(measures)), names, rotation=90)
    axes.set_yticks(range(len(measures)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.suptitle("below the diagonal: Spearman; above: overlap of top heads", fontsize="medium")
    return figure


def _write(axes: Axes, cell: tuple[int, int], rows: pd.DataFrame, column: str, small: bool) -> None:
    """Write the value into a cell (row, column), and the interval or range if `small` print has room."""
    row, col = cell
    axes.text(
        col, row, number(rows[column].mean()), ha="center", va="bottom" if small else "center",
        fontsize=6.5 if small else 5.5,
    )  # fmt: skip
    if small:
        bounds = rows[column] if len(rows) > 1 else rows[[f"{column}_low", f"{column}_high"]].iloc[0]
        text = f"{number(bounds.min())}, {number(bounds.max())}".replace("0.", ".")
        axes.text(col, row + 0.1, text, ha="center", va="top", fontsize=4)
