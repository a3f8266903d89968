"""Every head by role and importance, and the increase of the loss without it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from headspec.head_arrays import Layers, existing
from headspec.plots.atlas.maps import Floats, head_map, number_heads, panels, rows_of
from headspec.plots.drawing.heat_maps import divide, layer_name
from headspec.plots.drawing.marks import name_points
from headspec.plots.drawing.style import KEY, PAGE, key, legend, styled
from headspec.statistics.atlas.roles import majority_roles

#: role: style; `area` makes markers of different shapes equally large
ROLES: dict[str, dict[str, Any]] = {
    "positional": {"marker": "s", "facecolor": "#332288", "edgecolor": "black", "area": 0.79},
    "syntactic": {"marker": "^", "facecolor": "#ddaa33", "edgecolor": "black", "area": 1.3},
    "rare word": {"marker": "D", "facecolor": "#cc6677", "edgecolor": "black", "area": 0.7},
    "none": {"marker": "o", "facecolor": "0.93", "edgecolor": "0.45", "area": 1.0},
}
#: shares of the largest importance in the legend
SHARES = (1.0, 0.5, 0.1)
#: widest name of a relation, in squares
WIDEST = 2.3
#: diameters of markers, font size of a relation's name and space for it, in points
SMALLEST, LARGEST, FONT, ROOM = 2.6, 11, 4.5, 6.0
#: minimum and maximum side of a head's square, and maximum height of all panels, in inches
LEAST, MOST, TALLEST = 0.17, 0.36, 8.2
#: width of numbers and title of an axis, in inches
BESIDE = 0.3


@styled
def draw_roles(
    heads: pd.DataFrame, roles: pd.DataFrame, tasks: Sequence[str], attention: Layers | None = None
) -> Figure:
    """Draw a panel per task with a marker per head, whose area is its importance relative to the largest.

    A role from 'head_roles' is shown if a head has it in more than half of the seeds.
    """
    shares = {}
    for task in tasks:
        importance = head_map(heads, task, "importance")
        shares[task] = importance / (np.nanmax(importance) or 1)
    layers, in_layer = shares[tasks[0]].shape
    rows, columns = rows_of(len(tasks))
    width = min(PAGE / columns - BESIDE, max(MOST * in_layer, 0.06 * max(map(len, tasks)), 1.0))
    side = min(MOST, width / in_layer)
    height = max(min(max(side, LEAST), TALLEST / (rows * layers)) * layers, 0.6)
    figure, grid = panels((rows, columns), len(tasks), width + BESIDE, height + 0.4, 0.5)
    diameter = min(0.85 * 72 * side, 72 * height / layers - ROOM, LARGEST)
    shown = majority_roles(roles)
    every = pd.MultiIndex.from_arrays(np.nonzero(existing(shares[tasks[0]])), names=shown.index.names)
    shown = shown.reindex(every).fillna({"role": "none"})
    for axes, task in zip(grid, tasks, strict=True):
        _draw_head_roles(axes, shares[task], shown, diameter)
        axes.set_title(task)
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        number_heads(axes, attention)
        divide(axes, attention, named=True)
    for share in SHARES:
        label = f"{100 * share:.0f} %" + (" of the largest importance" if share == 1 else "")
        size = (share**0.5 * diameter) ** 2
        grid[0].scatter([], [], size, facecolor="white", edgecolor="black", label=label).set_gid(KEY)
    legend(figure)
    figure.draw_without_rendering()  # gives the axes their final places
    for axes, task in zip(grid, tasks, strict=True):
        _name_relations(axes, shares[task], shown, diameter)
    return figure


def _draw_head_roles(axes: Axes, share: Floats, roles: pd.DataFrame, diameter: float) -> None:
    """Draw a marker per head, role by role; `diameter`, for a share of 1, is in points."""
    for role, look in ROLES.items():
        chosen = roles.index[roles["role"] == role]
        layer, head = (chosen.get_level_values(name).to_numpy(dtype=int) for name in ("layer", "head"))
        area = np.maximum(share[layer, head] * diameter**2, SMALLEST**2) * look["area"]
        style = {name: value for name, value in look.items() if name != "area"}
        axes.scatter(head, layer, area, linewidth=0.4, **style)
        if len(chosen):
            label, size = role if role != "none" else "no role", 30 * look["area"]
            axes.scatter([], [], size, linewidth=0.4, label=label, **style).set_gid(KEY)
    layers, in_layer = share.shape
    axes.set_xlim(-0.6, in_layer - 0.4)
    axes.set_ylim(-0.7, layers - 0.4)


def _name_relations(axes: Axes, share: Floats, roles: pd.DataFrame, diameter: float) -> None:
    """Write the relation below each syntactic head where there is room, the most important first."""
    named = roles.dropna(subset="relation")
    frame = axes.get_window_extent()
    placed: list[Bbox] = []
    widest = WIDEST * np.diff(axes.transData.transform([(0, 0), (1, 0)])[:, 0])
    for layer, head in sorted(named.index, key=lambda place: -share[place]):
        below = max(share[layer, head] ** 0.5 * diameter, SMALLEST) * 0.58 + 0.7
        text = axes.annotate(
            named.loc[(layer, head), "relation"], (head, layer), (0, -below), textcoords="offset points",
            fontsize=FONT, ha="center", va="top",
        )  # fmt: skip
        text.set_in_layout(False)
        box = text.get_window_extent()
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0
        if inside and box.width <= widest and not any(box.overlaps(other) for other in placed):
            placed.append(box)
        else:
            text.remove()


#: measure: what replaces the output of a head
REPLACED = {"ablation": "replaced by zero", "mean_ablation": "replaced by its mean"}
#: whether an interval excludes 0: (legend entry, colour)
LOOKS = {True: ("interval excludes 0", "black"), False: ("interval includes 0", "0.65")}
#: maximum number of heads that are named
NAMED = 5
#: height of a panel without title and labels, in inches
PANEL_HEIGHT = 1.15


@styled
def draw_ablation(heads: pd.DataFrame, tasks: Sequence[str], attention: Layers | None = None) -> Figure:
    """Draw heads sorted by increase of the loss, a panel per task, with zero- next to mean-ablation.

    Values and ends of intervals are means over seeds, so intervals are no narrower than one for the mean.
    """
    measures = [replaced for replaced in REPLACED if replaced in set(heads["measure"])]
    width = PAGE / 2 if len(tasks) * len(measures) > 1 else 0.6 * PAGE
    n = len(tasks) * len(measures)
    figure, grid = panels(rows_of(n, 2), n, width, PANEL_HEIGHT + 0.45, 0.25)
    drawn: list[tuple[Axes, pd.DataFrame]] = []
    for i, task in enumerate(tasks):
        row = grid[i * len(measures) : (i + 1) * len(measures)]
        heads_of = {replaced: _by_effect(heads, task, replaced) for replaced in measures}
        for axes in row[1:]:
            axes.sharey(row[0])
            axes.tick_params(labelleft=False)
        for axes, (replaced, rows) in zip(row, heads_of.items(), strict=True):
            _draw_ablated(axes, rows)
            axes.set_title(task, loc="left")
            axes.set_title(REPLACED[replaced], loc="right", fontsize="small", color="0.3")
            axes.set_xlabel("heads, sorted")
        row[0].set_ylabel("increase of loss")
        drawn += zip(row, heads_of.values(), strict=True)
    legend(figure)
    figure.draw_without_rendering()  # fixes the size of the panels, which positions of labels depend on
    for axes, rows in drawn:
        _name_strongest(axes, rows, attention)
    return figure


def _by_effect(heads: pd.DataFrame, task: str, replaced: str) -> pd.DataFrame:
    """Return means over seeds, the largest first; index (layer, head), columns value, ci_low, ci_high."""
    rows = heads[(heads["task"] == task) & (heads["measure"] == replaced)]
    means = rows.groupby(["layer", "head"])[["value", "ci_low", "ci_high"]].mean()
    return means.sort_values("value", ascending=False, kind="stable")


def _draw_ablated(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw values and intervals of sorted heads, in black if they exclude 0."""
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
