"""Kept kinds of attention and their layers, as heads go (Voita et al. 2019, figures 7 and 8)."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.attention import KINDS, SELF
from headspec.config.values import WHOLE
from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, legend, styled
from headspec.plots.gates.panels import panels, scale

#: panels per row, at most
COLUMNS = 4
#: column of the table: name of its axis, and factor to the unit there
VALUES = {
    "share": ("heads of the kind\nthat are kept (%)", 100.0),
    "depth": ("mean layer kept\nminus mean layer of all", 1.0),
}


@styled
def draw(kinds: pd.DataFrame, labels: Mapping[str, str], tasks: Sequence[str]) -> Figure:
    """A column for each pruning method (and task with heads of its own): shares kept above, layers below.

    If all heads are of one kind, whose share is the number of heads kept, only layers are drawn.
    """
    rows = kinds[kinds["against"].isna()].assign(task=kinds["task"].fillna(""))
    whole, rest = rows[rows["way"] == WHOLE], rows[rows["way"] != WHOLE]
    shown = panels(rest, labels, tasks)
    bands = math.ceil(len(shown) / COLUMNS)
    columns = math.ceil(len(shown) / bands)
    values = VALUES if rows["kind"].nunique() > 1 else {"depth": VALUES["depth"]}
    lines = len(values)
    size = (max(PAGE * columns / COLUMNS, PAGE / 2), 0.6 + (0.2 + 1.25 * lines) * bands)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines * bands, columns, squeeze=False, sharex=True, sharey="row")
    for i, (method, scope, task) in enumerate(shown):
        band, column = divmod(i, columns)
        cells = grid[lines * band : lines * (band + 1), column]
        panel_rows, whole_rows = (
            frame[(frame["scope"] == scope) & (frame["task"] == task)] for frame in (rest, whole)
        )
        method_rows = pd.concat([panel_rows[panel_rows["way"] == method], whole_rows])
        for axes, (value, (_, factor)) in zip(cells, values.items(), strict=True):
            _draw_panel(axes, method_rows, value, factor)
        depth = cells[-1]
        depth.axhline(0, color="0.6", linewidth=0.6, zorder=0)
        cells[0].set_title(textwrap.fill(labels[method], 24) + (f"\n{task}" if task else ""))
        depth.set_xlabel("heads kept")
        depth.tick_params(labelbottom=True)  # also above another band
    for first, (value, (name, factor)) in enumerate(values.items()):
        for axes in grid[first::lines, 0]:
            axes.set_ylabel(name)
            axes.set_ylim(*scale(rows, value, factor))
    for i in range(len(shown), bands * columns):
        for axes in grid[lines * (i // columns) : lines * (i // columns + 1), i % columns]:
            axes.remove()
    legend(figure)
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame, value: str, factor: float) -> None:
    """Draw a line for each kind, with intervals side by side."""
    found = [kind for kind in (SELF, *KINDS) if kind in set(rows["kind"])]
    for i, kind in enumerate(found):
        kind_rows = rows[rows["kind"] == kind].sort_values("heads")
        heads = kind_rows["heads"] + (i - (len(found) - 1) / 2) * 0.008 * rows["heads"].max()
        axes.plot(
            heads, factor * kind_rows[value], color=COLOURS[i], marker=MARKERS[i], markersize=3.5,
            linewidth=1.0, label=kind,
        )  # fmt: skip
        low, high = factor * kind_rows[f"{value}_low"], factor * kind_rows[f"{value}_high"]
        axes.vlines(heads, low, high, color=COLOURS[i], linewidth=0.6, alpha=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(axis="y")
