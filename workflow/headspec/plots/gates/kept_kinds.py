"""Kinds of attention that are kept as heads go, and their layers (Voita et al. 2019, figures 7 and 8)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.attention import KINDS, SELF
from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, legend, styled
from headspec.plots.gates.panels import panels

WHOLE = "whole"
#: panels per row, at most
COLUMNS = 4


@styled
def draw(kinds: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """A column for each way (and task with heads of its own): shares kept above, layers below.

    Parameters
    ----------
    kinds : rows of the table 'kept_kinds' of one model, mixture and method
    labels : way: its name
    """
    rows = kinds[kinds["against"].isna()].assign(task=kinds["task"].fillna(""))
    whole, rest = rows[rows["way"] == WHOLE], rows[rows["way"] != WHOLE]
    shown = panels(rest, labels)
    bands = math.ceil(len(shown) / COLUMNS)
    columns = math.ceil(len(shown) / bands)
    size = (max(PAGE * columns / COLUMNS, PAGE / 2), 0.6 + 2.7 * bands)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * bands, columns, squeeze=False, sharex=True, sharey="row")
    for i, (way, sets, task) in enumerate(shown):
        band, column = divmod(i, columns)
        share, depth = grid[2 * band : 2 * band + 2, column]
        of_set, of_whole = (
            frame[(frame["sets"] == sets) & (frame["task"] == task)] for frame in (rest, whole)
        )
        of_way = pd.concat([of_set[of_set["way"] == way], of_whole])
        _draw_panel(share, of_way, "share", 100)
        _draw_panel(depth, of_way, "depth", 1)
        depth.axhline(0, color="0.6", linewidth=0.6, zorder=0)
        share.set_title(textwrap.fill(labels[way], 24) + (f"\n{task}" if task else ""))
        depth.set_xlabel("heads kept")
        depth.tick_params(labelbottom=True)  # also above another band
    for first, value, scale, name in (
        (0, "share", 100, "heads of the kind\nthat are kept (%)"),
        (1, "depth", 1, "mean layer kept\nless that of all"),
    ):
        low, high = scale * rows[value].min(), scale * rows[value].max()
        margin = 0.05 * scale + 0.15 * (high - low)
        for axes in grid[first::2, 0]:
            axes.set_ylabel(name)
            axes.set_ylim(low - margin, high + margin)  # intervals may reach beyond
    for i in range(len(shown), bands * columns):
        for axes in grid[2 * (i // columns) : 2 * (i // columns) + 2, i % columns]:
            axes.remove()
    legend(figure)
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame, value: str, scale: float) -> None:
    """Draw a line for each kind; its intervals stand beside those of the others."""
    found = [kind for kind in (SELF, *KINDS) if kind in set(rows["kind"])]
    for i, kind in enumerate(found):
        of_kind = rows[rows["kind"] == kind].sort_values("heads")
        heads = of_kind["heads"] + (i - (len(found) - 1) / 2) * 0.008 * rows["heads"].max()
        axes.plot(
            heads, scale * of_kind[value], color=COLOURS[i], marker=MARKERS[i], markersize=3.5, linewidth=1.0,
            label=kind,
        )  # fmt: skip
        low, high = scale * of_kind[f"{value}_low"], scale * of_kind[f"{value}_high"]
        axes.vlines(heads, low, high, color=COLOURS[i], linewidth=0.6, alpha=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(axis="y")
