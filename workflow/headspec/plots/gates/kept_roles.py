"""Roles of the kept heads, as heads go (Voita et al. 2019)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.config.values import WHOLE
from headspec.plots.atlas.heads import ROLES
from headspec.plots.drawing.style import PAGE, key, legend, styled
from headspec.plots.gates.panels import panels
from headspec.statistics.resampling import SIGNIFICANCE

#: panels per row, at most
COLUMNS = 4
BY_LAYER = (0, (4, 2))


@styled
def draw(counts: pd.DataFrame, labels: Mapping[str, str], tasks: Sequence[str]) -> Figure:
    """A panel for each pruning method (and task with heads of its own): a line per role, up to all heads."""
    counts = counts.assign(task=counts["task"].fillna(""))
    whole = counts[counts["way"] == WHOLE]
    rest = counts[counts["way"] != WHOLE]
    shown = panels(rest, labels, tasks)
    columns = min(COLUMNS, rest["way"].nunique())
    lines = math.ceil(len(shown) / columns)
    size = (max(PAGE * columns / COLUMNS, PAGE / 2), 1.0 + 1.6 * lines)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for axes, (method, scope, task) in zip(grid, shown, strict=False):
        panel_rows, whole_rows = (
            rows[(rows["scope"] == scope) & (rows["task"] == task)] for rows in (rest, whole)
        )
        method_rows = panel_rows[panel_rows["way"] == method]
        if method_rows["after"].isna().all():
            whole_rows = whole_rows.assign(after=np.nan)
        _draw_panel(axes, pd.concat([method_rows, whole_rows]))
        axes.set_title(labels[method] + (f"\n{task}" if task else ""))
    for axes in grid[len(shown) - columns : len(shown)]:
        axes.set_xlabel("heads kept")
    for axes in grid[::columns]:
        axes.set_ylabel("heads with the role")
    for axes in grid[len(shown) :]:
        axes.remove()
    key(grid[0], "kept at random within layers", linestyle=BY_LAYER, color="0.4")
    if counts["after"].notna().any():
        key(grid[0], "after further training", linestyle=":", marker="x", color="0.4")
    legend(figure)
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the lines of all roles; `rows` are of one pruning method, and of the whole model."""
    for role, marker, colour in ((role, look["marker"], look["facecolor"]) for role, look in ROLES.items()):
        role_rows = rows[rows["role"] == role].sort_values("heads")
        if role_rows.empty:
            continue
        heads, trained = role_rows["heads"], role_rows.dropna(subset="after")
        axes.plot(heads, role_rows["kept"], color=colour)
        axes.vlines(
            heads, role_rows["kept_least"], role_rows["kept_most"], color=colour, linewidth=0.6, alpha=0.6
        )
        axes.plot(heads, role_rows["kept_by_layer"], color=colour, linestyle=BY_LAYER, linewidth=0.7)
        axes.plot(trained["heads"], trained["after"], "x:", color=colour, markersize=4, linewidth=0.8)
        key(axes, role, marker=marker, color=colour)
        sure = role_rows["p_holm"] < SIGNIFICANCE
        for points, fill in ((role_rows[sure], colour), (role_rows[~sure], "white")):
            axes.plot(points["heads"], points["kept"], marker, color=colour, markerfacecolor=fill)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
