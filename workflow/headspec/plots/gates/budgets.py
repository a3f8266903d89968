"""Metric against the number of heads kept, for every pruning method."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.config.values import MEAN, WHOLE
from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, key, legend, styled
from headspec.plots.drawing.unlearnt import marked, name_mark
from headspec.plots.gates.panels import SCOPES, scale
from headspec.tasks.metrics import metric

#: panels per row, at most
COLUMNS = 3
#: gates that missed their target
CROSS: dict[str, Any] = {"color": "black", "marker": "x", "linestyle": "none", "markersize": 7, "zorder": 3}
CROSSED = "crossed: gates missed their target"
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))


def method_style(places: Mapping[str, int], method: str) -> dict[str, Any]:
    """Colour, marker and line of a pruning method by its place in the list of pruning methods."""
    place = places[method]
    dashes = DASHES[place // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)],
            "linestyle": dashes, "markersize": 3.5, "linewidth": 1.0}  # fmt: skip


@styled
def draw(
    budgets: pd.DataFrame, metrics: Mapping[str, str], labels: Mapping[str, str], places: Mapping[str, int]
) -> Figure:
    """A panel for each task and scope: a line for each pruning method, and one for the whole model.

    `places` give the looks of pruning methods; the main metric of each task is shown.
    """
    shown = {**metrics, MEAN: MEAN}
    rows = budgets[budgets["metric"] == budgets["task"].map(shown)]
    rows = rows.drop_duplicates(
        ["scope", "way", "fraction", "penalty", "task"]
    )  # once, not for each comparison
    kinds = [scope for scope in SCOPES if scope in set(rows["scope"])]
    tasks = [task for task in shown if task in set(rows["task"])]
    columns = min(COLUMNS, len(tasks))
    lines = math.ceil(len(tasks) / columns)  # of each scope
    size = (PAGE * max(columns, 2) / COLUMNS, 1.0 + 1.9 * lines * len(kinds))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines * len(kinds), columns, squeeze=False)
    for i, scope in enumerate(kinds):
        panels = grid[i * lines : (i + 1) * lines].ravel()
        for axes, task in zip(panels, tasks, strict=False):
            panel = rows[(rows["scope"] == scope) & (rows["task"] == task)]
            _draw_panel(axes, panel, labels, places)
            whole = panel[panel["way"] == WHOLE]
            nothing = {*whole.loc[whole["unpruned_at_chance"].eq(True), "task"]}
            name_mark(axes, nothing)
            axes.set_title(marked(task, nothing) + (f", {SCOPES[scope]}" if len(kinds) > 1 else ""))
            axes.set_ylabel("mean (%)" if task == MEAN else f"{metric(metrics[task]).name} (%)")
        for axes in panels[len(tasks) :]:
            axes.remove()
    for axes in grid[-1]:
        axes.set_xlabel("heads kept")
    legend(figure)
    return figure


def _draw_panel(
    axes: Axes, panel: pd.DataFrame, labels: Mapping[str, str], places: Mapping[str, int]
) -> None:
    """Draw the whole model and all pruning methods, side by side where they keep as many heads."""
    _draw_whole(axes, panel[panel["way"] == WHOLE], labels[WHOLE])
    pruning_methods = [method for method in labels if method != WHOLE and method in set(panel["way"])]
    asked = panel.loc[panel["fraction"].notna() & (panel["way"] != WHOLE), "heads"]
    gap = np.diff(sorted({0.0, *asked})).min(initial=panel["heads"].max())
    for i, method in enumerate(pruning_methods):
        side = 0.25 * gap * (i - (len(pruning_methods) - 1) / 2) / len(pruning_methods)
        _draw_method(axes, panel[panel["way"] == method], labels[method], method_style(places, method), side)
    axes.set_ylim(*scale(panel, "value", 100))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(axis="y")


def _draw_whole(axes: Axes, rows: pd.DataFrame, label: str) -> None:
    """Draw the whole model as a line, with its interval."""
    for row in rows.to_dict("records"):
        axes.axhspan(100 * row["value_low"], 100 * row["value_high"], color="0.93", zorder=0)
        axes.axhline(100 * row["value"], color="black", linewidth=0.9, label=label, zorder=1)


def _draw_method(axes: Axes, rows: pd.DataFrame, label: str, look: dict[str, Any], side: float) -> None:
    """Draw the metric of a method with its intervals; hollow where a penalty gave the number of heads.

    A cross marks gates that missed their target, in any of the runs.
    """
    own = rows["fraction"].isna()
    rows = rows.assign(heads=rows["heads"] + np.where(own, 0, side))
    asked = rows[~own].sort_values("heads")
    axes.plot(asked["heads"], 100 * asked["value"], label=label, **look)
    axes.vlines(
        rows["heads"],
        100 * rows["value_low"],
        100 * rows["value_high"],
        color=look["color"],
        linewidth=0.5,
        alpha=0.6,
    )
    hollow = look | {"linestyle": "none", "markerfacecolor": "white", "markersize": 5}
    axes.plot(rows[own]["heads"], 100 * rows[own]["value"], **hollow)
    if own.any():
        key(axes, "hollow: as many as the penalty leaves", **hollow | {"color": "0.3", "marker": "o"})
    missed = rows[rows["missed"] > 0]
    if len(missed):
        axes.plot(missed["heads"], 100 * missed["value"], label=CROSSED, **CROSS)
