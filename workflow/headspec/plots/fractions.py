"""Dissociation against the fraction of heads pruned: which results depend on its choice."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.config.values import MEAN
from headspec.plots.drawing.style import PAGE, interval_label, key, legend, number, styled, task_style

#: panels per row, at most
COLUMNS = 4
#: looks of the mean over tasks, and of that mean for the control
MEAN_LINE: dict[str, Any] = {"color": "black", "linewidth": 1.8, "zorder": 2}
CONTROL_LINE: dict[str, Any] = {
    "color": "0.45",
    "linestyle": (0, (4, 2)),
    "zorder": 1.5,
    "label": "mean, frozen",
}
#: look of a value at chance
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "linestyle": "none", "zorder": 5}
#: of values of a model that learnt nothing
CROSSED: dict[str, Any] = {"marker": "x", "linestyle": "none", "markersize": 5, "zorder": 6}


@styled
def draw(
    fractions: pd.DataFrame,
    areas: pd.DataFrame,
    mixtures: Mapping[str, Sequence[str]],
    main: float,
    method: str,
) -> Figure:
    """A panel per mixture: D of every task against the fraction of heads pruned, starting at 0.

    A line shows the `main` fraction. Unless `method` is `frozen`, the mean for `frozen` is added.
    """
    width = max(1.6, 0.07 * max(map(len, mixtures)))  # of the longest name
    columns = max(1, min(COLUMNS, len(mixtures), int((PAGE - 0.5) / width)))
    rows = math.ceil(len(mixtures) / columns)
    size = (min(PAGE, 0.5 + max(2.1, width) * columns), 0.8 + 1.75 * rows)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    tasks = list(dict.fromkeys(task for members in mixtures.values() for task in members))
    for axes, (mixture, members) in zip(grid.ravel(), mixtures.items(), strict=False):
        in_mixture = fractions[fractions["mixture"] == mixture]
        panel = in_mixture[in_mixture["method"] == method]
        axes.axhline(0, color="black", linewidth=0.6)
        axes.axvline(100 * main, color="0.6", linestyle=":", label="main fraction")
        for i, task in enumerate(members):
            side = 0.6 * (i - (len(members) - 1) / 2)  # percentage points: intervals stand side by side
            _curve(axes, panel[panel["task"] == task], task, task_style(tasks, task), side)
        _plot(axes, panel[panel["task"] == MEAN], MEAN_LINE | {"label": "mean over tasks"})
        if method != "frozen":
            frozen = in_mixture[in_mixture["method"] == "frozen"]
            _plot(axes, frozen[frozen["task"] == MEAN], CONTROL_LINE)
        axes.set_title("\n".join([mixture, *_area(areas, mixture, method)]))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
        axes.grid(axis="y")
    for axes in grid.ravel()[len(mixtures) :]:
        axes.remove()
    for axes in grid.ravel()[: len(mixtures)][-columns:]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("heads pruned (%)")
    for axes in grid[:, 0]:
        axes.set_ylabel("dissociation D (%)")
    legend(figure)
    return figure


def _plot(axes: Axes, rows: pd.DataFrame, look: Mapping[str, Any]) -> None:
    """Draw D against the fraction, from 0 % of the heads, where it is 0."""
    if len(rows):
        axes.plot([0, *100 * rows["fraction"]], [0, *100 * rows["dissociation"]], **look)
        _cross(axes, rows, 100 * rows["fraction"], look)


def _curve(axes: Axes, rows: pd.DataFrame, task: str, look: dict[str, Any], side: float) -> None:
    """Draw the D of one task with its intervals; hollow where a pruned model is at chance."""
    x = 100 * rows["fraction"] + side
    axes.plot([0, *x], [0, *100 * rows["dissociation"]], label=task, linewidth=0.9, markevery=slice(1, None),
              **look)  # fmt: skip
    line = {"color": look["color"], "linewidth": 0.9, "label": interval_label(rows)}
    axes.vlines(x, 100 * rows["ci_low"], 100 * rows["ci_high"], **line)
    at_chance = rows["at_chance"].to_numpy(dtype=bool)
    axes.plot(x[at_chance], 100 * rows["dissociation"][at_chance], **look | HOLLOW)
    if at_chance.any():
        key(axes, "hollow: at chance", **{"color": "0.3", "marker": "o"} | HOLLOW)
    _cross(axes, rows, x, look)


def _cross(axes: Axes, rows: pd.DataFrame, x: pd.Series, look: Mapping[str, Any]) -> None:
    """Cross the values of a model that learnt nothing."""
    nothing = rows["unpruned_at_chance"].eq(True)
    if nothing.any():
        axes.plot(x[nothing], 100 * rows["dissociation"][nothing], color=look["color"], **CROSSED)
        key(axes, "crossed: unpruned model at chance", color="0.3", **CROSSED)


def _area(areas: pd.DataFrame, mixture: str, method: str) -> list[str]:
    """Line of text with the mean over tasks and fractions and its interval; none for one fraction."""
    keys = (areas["mixture"] == mixture) & (areas["method"] == method) & (areas["task"] == MEAN)
    lines = []
    for row in areas[keys].to_dict("records"):
        area, low, high = (number(100 * row[name], 1) for name in ("area", "ci_low", "ci_high"))
        lines.append(f"mean D {area} % [{low}, {high}]")
    return lines
