"""Increase of the loss when each head is ablated alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from headspec.plots.atlas.measures import panels, rows_of
from headspec.plots.drawing.style import PAGE, legend, styled

#: measure: what replaces the output of a head
KINDS = {"ablation": "replaced by zero", "mean_ablation": "replaced by its mean"}
#: whether an interval excludes 0: (legend entry, colour)
LOOKS = {
    True: ("interval excludes 0", "black"),
    False: ("interval includes 0", "0.65"),
}
#: the strongest heads that are named, and the height of a name, in points
NAMED, LINE = 5, 7.5
#: height of a panel without title and labels, in inches
HEIGHT = 1.15


@styled
def draw(heads: pd.DataFrame, tasks: Sequence[str]) -> Figure:
    """Heads sorted by the increase, a panel per task, for zero- and mean-ablation beside one another.

    Values and intervals are means over seeds. The mean of the seeds' intervals is no narrower than an
    interval of the mean, however the seeds are correlated.

    Parameters
    ----------
    heads : rows of the table 'heads' of one model, mixture and method
    tasks : in the order of the panels
    """
    kinds = [kind for kind in KINDS if kind in set(heads["measure"])]
    width = PAGE / 2 if len(tasks) * len(kinds) > 1 else 0.6 * PAGE
    n = len(tasks) * len(kinds)
    figure, grid = panels(rows_of(n, 2), n, width, HEIGHT + 0.45, 0.25)
    for i, task in enumerate(tasks):
        row = grid[i * len(kinds) : (i + 1) * len(kinds)]
        heads_of = {kind: _sorted(heads, task, kind) for kind in kinds}
        for axes in row[1:]:
            axes.sharey(row[0])
            axes.tick_params(labelleft=False)
        for axes, (kind, rows) in zip(row, heads_of.items(), strict=True):
            _draw_heads(axes, rows)
            axes.set_title(task, loc="left")
            axes.set_title(KINDS[kind], loc="right", fontsize="small", color="0.3")
            axes.set_xlabel("heads, sorted")
        row[0].set_ylabel("increase of loss")
        for axes, rows in zip(row, heads_of.values(), strict=True):  # the row has its scale now
            _name_strongest(axes, rows)
    legend(figure)
    return figure


def _sorted(heads: pd.DataFrame, task: str, kind: str) -> pd.DataFrame:
    """Means over seeds, the largest first; index (layer, head), columns value, ci_low, ci_high."""
    rows = heads[(heads["task"] == task) & (heads["measure"] == kind)]
    means = rows.groupby(["layer", "head"])[["value", "ci_low", "ci_high"]].mean()
    return means.sort_values("value", ascending=False, kind="stable")


def _draw_heads(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw values and intervals of sorted heads, those that differ from 0 in black."""
    axes.axhline(0, color="black", linewidth=0.6)
    axes.grid(axis="y")
    ranks = np.arange(len(rows))
    pitch = 72 * (PAGE / 2 - 0.6) / len(rows)  # points from head to head
    differs = ((rows["ci_low"] > 0) | (rows["ci_high"] < 0)).to_numpy()
    for which, (label, colour) in LOOKS.items():
        chosen, ordered = rows[differs == which], ranks[differs == which]
        line = min(1.0, 0.6 * pitch)
        axes.vlines(ordered, chosen["ci_low"], chosen["ci_high"], color=colour, linewidth=line)
        look: dict[str, Any] = {
            "color": colour,
            "markersize": float(np.clip(pitch, 1.4, 3)),
            "markeredgewidth": 0.5,
        }
        if not which:
            look |= {"markerfacecolor": "white"}
        axes.plot(ordered, chosen["value"], "o", **look)
        axes.plot([], [], "o", label=label, **look | {"markersize": 3})
    axes.set_xlim(-0.03 * len(rows) - 0.5, 1.02 * len(rows) - 0.5)
    axes.set_xticks([])


def _name_strongest(axes: Axes, rows: pd.DataFrame) -> None:
    """Write layer.head of the heads with the largest increases to their right, one below the other."""
    top = rows.head(NAMED)
    top = top[top["ci_low"] > 0]
    low, high = axes.get_ylim()
    step = (high - low) * LINE / (72 * HEIGHT)
    heights = [low]
    for value in reversed(top["value"].to_list()):  # as low as its head, or above the next name
        heights.insert(0, max(value, heights[0] + step))
    highest = [high - step * (rank + 0.5) for rank in range(len(top))]
    heights = [min(pair) for pair in zip(heights, highest, strict=False)]
    lowest = min(heights, default=high) - step
    reach = np.count_nonzero(rows["ci_high"] > lowest)  # heads whose intervals are beside the names
    x = float(np.clip(reach + 0.05 * len(rows), 0.12 * len(rows), 0.8 * len(rows)))
    axes.set_ylim(low, high)
    for rank, ((layer, head), value, y) in enumerate(zip(top.index, top["value"], heights, strict=True)):
        axes.add_line(Line2D([rank, x], [value, y], color="0.4", linewidth=0.4))
        axes.annotate(
            f"{layer}.{head}", (x, y), (2, 0), textcoords="offset points", fontsize="small", va="center",
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        )  # fmt: skip
