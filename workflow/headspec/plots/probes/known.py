"""Knowledge that single heads have of the labels of a task, before and after training."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, key, legend, styled

#: groups of runs in their order; others follow
FIRST = ("random", "pretrained", "single")
#: most labels that are drawn
SHOWN = 20
#: rows and column of each panel
PANELS = {
    "best head": ("best", "accuracy"),
    "mean of all heads": ("mean", "accuracy"),
    "best head beyond its control": ("best", "selectivity"),
}


@styled
def draw(probes: pd.DataFrame, joint: str | None) -> Figure:
    """Accuracy of the best and of all heads, and selectivity: a line for each label, a point per group.

    `joint` is the mixture that is shown.
    """
    probes = probes[probes["method"].isin(FIRST) | (probes["mixture"] == joint)]
    names = probes["mixture"].where(probes["method"] == "tuned", probes["mixture"] + ", " + probes["method"])
    named = probes.assign(
        runs=names.where(~probes["method"].isin(FIRST), probes["method"]), label=probes["label"].fillna("all")
    )
    order = named.sort_values(["n", "label"], ascending=[False, True])["label"].unique()[: SHOWN + 1]
    places = {name: place for place, name in enumerate(FIRST)}
    runs = sorted(named["runs"].unique(), key=lambda name: places.get(name, len(FIRST)))
    height = 1.2 + len(order) * max(0.24, 0.055 * len(runs))
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for axes, (title, (heads, column)) in zip(panels, PANELS.items(), strict=True):
        rows = named[named["heads"] == heads].set_index("label")
        for i, name in enumerate(runs):
            _group(axes, rows[rows["runs"] == name].loc[order], column, i, len(runs), name)
        if column == "accuracy":
            key(axes, "control", color="0.3", marker="x", markersize=3, linestyle="none")
            axes.set_xlim(-2, 102)
        else:
            axes.axvline(0, color="0.6", linewidth=0.6)
        axes.set_title(title)
        axes.set_xlabel("right (%)" if column == "accuracy" else "difference (points)")
        axes.grid(axis="x")
    panels[0].set_yticks(range(len(order)), order)
    panels[0].set_ylim(len(order) - 0.5, -0.5)
    legend(figure)
    return figure


def _group(axes: Axes, rows: pd.DataFrame, column: str, lane: int, lanes: int, name: str) -> None:
    """Draw the points of a group of runs, with intervals, and crosses for its control."""
    places = [y + 0.8 * ((lane + 0.5) / lanes - 0.5) for y in range(len(rows))]
    look: dict[str, Any] = {"color": COLOURS[lane % len(COLOURS)], "markersize": 3, "linestyle": "none"}
    low, high = (100 * rows[f"{column}_{end}"] for end in ("low", "high"))
    axes.hlines(places, low, high, color=look["color"], linewidth=0.7)
    axes.plot(100 * rows[column], places, marker=MARKERS[lane % len(MARKERS)], label=name, **look)
    if column == "accuracy":
        axes.plot(100 * rows["control"], places, marker="x", alpha=0.7, **look)
