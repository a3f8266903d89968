"""Increase of the loss when each head is ablated alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.attention import Layers
from headspec.plots.atlas.measures import panels, rows_of
from headspec.plots.drawing.kinds import layer_name
from headspec.plots.drawing.labels import name_points
from headspec.plots.drawing.style import PAGE, key, legend, styled

#: measure: what replaces the output of a head
KINDS = {"ablation": "replaced by zero", "mean_ablation": "replaced by its mean"}
#: whether an interval excludes 0: (legend entry, colour)
LOOKS = {True: ("interval excludes 0", "black"), False: ("interval includes 0", "0.65")}
#: how many heads are named at most
NAMED = 5
#: height of a panel without title and labels, in inches
HEIGHT = 1.15


@styled
def draw(heads: pd.DataFrame, tasks: Sequence[str], attention: Layers | None = None) -> Figure:
    """Heads sorted by the increase, a panel per task, zero- beside mean-ablation.

    Values and interval ends are means over seeds, so that intervals are no narrower than one of the mean.
    """
    kinds = [kind for kind in KINDS if kind in set(heads["measure"])]
    width = PAGE / 2 if len(tasks) * len(kinds) > 1 else 0.6 * PAGE
    n = len(tasks) * len(kinds)
    figure, grid = panels(rows_of(n, 2), n, width, HEIGHT + 0.45, 0.25)
    drawn: list[tuple[Axes, pd.DataFrame]] = []
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
        drawn += zip(row, heads_of.values(), strict=True)
    legend(figure)
    figure.draw_without_rendering()  # fixes the size of the panels, on which the places of names depend
    for axes, rows in drawn:
        _name_strongest(axes, rows, attention)
    return figure


def _sorted(heads: pd.DataFrame, task: str, kind: str) -> pd.DataFrame:
    """Means over seeds, the largest first; index (layer, head), columns value, ci_low, ci_high."""
    rows = heads[(heads["task"] == task) & (heads["measure"] == kind)]
    means = rows.groupby(["layer", "head"])[["value", "ci_low", "ci_high"]].mean()
    return means.sort_values("value", ascending=False, kind="stable")


def _draw_heads(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw values and intervals of sorted heads, in black if they differ from 0."""
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
        if len(chosen):
            key(axes, label, linestyle="none", marker="o", **look | {"markersize": 3})
    axes.set_xlim(-0.03 * len(rows) - 0.5, 1.02 * len(rows) - 0.5)
    axes.set_xticks([])


def _name_strongest(axes: Axes, rows: pd.DataFrame, attention: Layers | None) -> None:
    """Write layer.head above the intervals of the strongest heads that differ from 0."""
    ranks = np.arange(len(rows))
    ends = np.stack([ranks, rows["ci_high"]], axis=-1)
    intervals = np.hstack([np.stack([ranks, rows["ci_low"]], axis=-1), ends])
    strongest = ranks[rows["ci_low"] > 0][:NAMED]
    names = [f"{layer_name(layer, attention)}.{head}" for layer, head in rows.index[strongest]]
    name_points(axes, ends[strongest], names, intervals)
