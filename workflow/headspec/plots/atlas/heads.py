"""Every head by its role and its importance for each task."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from headspec.attention import Layers, existing
from headspec.plots.atlas.measures import Floats, head_map, number_heads, panels, rows_of
from headspec.plots.drawing.kinds import divide
from headspec.plots.drawing.style import KEY, PAGE, legend, styled
from headspec.statistics.atlas.majority import majority

#: role: look; `area` makes markers of different shapes equally large
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
#: diameters of markers, font of a relation's name and space for it, in points
SMALLEST, LARGEST, FONT, ROOM = 2.6, 11, 4.5, 6.0
#: side of the square of a head, at least and at most, and height of all panels together, in inches
LEAST, MOST, TALLEST = 0.17, 0.36, 8.2
#: width of numbers and title of an axis, in inches
BESIDE = 0.3


@styled
def draw(
    heads: pd.DataFrame, roles: pd.DataFrame, tasks: Sequence[str], attention: Layers | None = None
) -> Figure:
    """A panel per task with a marker per head, whose area is the share of the largest importance.

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
    shown = majority(roles)
    every = pd.MultiIndex.from_arrays(np.nonzero(existing(shares[tasks[0]])), names=shown.index.names)
    shown = shown.reindex(every).fillna({"role": "none"})
    for axes, task in zip(grid, tasks, strict=True):
        _draw_heads(axes, shares[task], shown, diameter)
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


def _draw_heads(axes: Axes, share: Floats, roles: pd.DataFrame, diameter: float) -> None:
    """Draw a marker per head, role by role; `diameter` of share 1 is in points."""
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
