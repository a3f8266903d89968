"""Dissociation of every task before and after IAT, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots import MEAN, interval_label, legend, styled
from headspec.plots.dissociation import DAGGER, DOT

#: method: (legend, look of its bars), in their order
BARS: dict[str, tuple[str, dict[str, Any]]] = {
    "tuned": ("before IAT (MTL)", {"facecolor": "#e8eef4", "edgecolor": "black"}),
    "iat": ("after IAT", {"facecolor": "#4292c6", "edgecolor": "black"}),
}
HEIGHT = 0.4


@styled
def draw(
    specialization: pd.DataFrame, combined: pd.DataFrame, dissociation: pd.DataFrame, tasks: Sequence[str]
) -> Figure:
    """Bars of dissociation before and after on the left, differences on the right, the mean on top.

    Parameters
    ----------
    specialization : rows of the table 'specialization' of one model and mixture
        Differences with their paired intervals.
    combined, dissociation : rows of the tables 'iat_combined' and 'iat_dissociation' of the same
        Bars with their intervals, and single seeds.
    tasks : tasks of the mixture, in the order of the rows
    """
    rows = [MEAN, *tasks]
    names = max(0.5, 0.058 * max(map(len, rows)))
    figure = Figure(figsize=(names + 4.6, 0.95 + 0.27 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.35, 1])
    place = {task: y for y, task in enumerate(rows)}
    for axes, label in ((left, "dissociation D (%)"), (right, "after less before (points)")):
        axes.axvline(0, color="black", linewidth=0.6)
        axes.axhline(0.5, color="0.7", linewidth=0.5)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(label)
    seeds = dissociation.pivot(index=["method", "seed"], columns="task", values="dissociation")
    seeds[MEAN] = seeds[list(tasks)].mean(axis=1, skipna=False)
    for lane, (method, (label, look)) in enumerate(BARS.items()):
        own = combined[combined["method"] == method].set_index("task").loc[rows]
        ys = np.arange(len(rows)) + HEIGHT * (lane - 0.5)
        left.barh(ys, 100 * own["dissociation"], HEIGHT, label=label, **look)
        over = interval_label(own)
        left.hlines(ys, 100 * own["ci_low"], 100 * own["ci_high"], color="black", label=over)
        for _, values in seeds.loc[method].iterrows():
            left.plot(100 * values[rows], ys, **DOT)
    found = specialization.set_index("task").loc[rows]
    _draw_differences(right, found, seeds, rows)
    floor = found["floor"].to_numpy(dtype=bool)
    if floor.any():
        x = np.full(floor.sum(), 1.04)
        right.plot(x, np.flatnonzero(floor), transform=right.get_yaxis_transform(), clip_on=False, **DAGGER)
    left.set_yticks(list(place.values()), rows)
    left.set_ylim(len(rows) - 0.4, -0.6)
    left.get_yticklabels()[0].set_fontweight("bold")
    legend(figure)
    return figure


def _draw_differences(axes: Axes, found: pd.DataFrame, seeds: pd.DataFrame, rows: Sequence[str]) -> None:
    """Mean and interval of the differences, and those of single seeds."""
    ys = np.arange(len(rows))
    label = interval_label(found)
    axes.hlines(ys, 100 * found["ci_low"], 100 * found["ci_high"], color="black", label=label)
    mean: dict[str, Any] = {"marker": "D", "linestyle": "none", "color": "black", "zorder": 4}
    axes.plot(100 * found["difference"], ys, label="mean over seeds", **mean)
    method, values = seeds.index.get_level_values("method"), seeds[list(rows)].to_numpy()
    for differences in values[method == "iat"] - values[method == "tuned"]:
        axes.plot(100 * differences, ys + 0.24, **DOT)
    axes.margins(x=0.08)
