"""Few-shot transfer: metric by number of samples and training of the encoder."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from headspec.config.values import MEAN
from headspec.plots.drawing.style import COLOURS, draw_upright, legend, styled
from headspec.tasks.metrics import metric

#: tuning: title of its column
TUNINGS = {"full": "full fine-tuning", "linear": "linear classifier"}
#: method: (legend entry, style)
SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "pretrained": ("pretrained", {"color": "0.45", "marker": "o", "markerfacecolor": "white"}),
    "single": ("single-task, mean", {"color": COLOURS[3], "marker": "D"}),
    "tuned": ("multi-task", {"color": COLOURS[0], "marker": "s"}),
    "iat": ("multi-task + IAT", {"color": COLOURS[1], "marker": "^", "linewidth": 1.8, "zorder": 4}),
}
#: colours and markers of controls, in order; their lines are dashed
CONTROLS = [
    *((2, "P"), (6, "X"), (4, "v"), (7, "<"), (8, ">"), (5, "p")),
    *((2, "*"), (6, "h"), (4, "8"), (7, "d"), (8, "H"), (5, "d")),
]
#: style of a single-task encoder
SINGLE_TASK: dict[str, Any] = {"color": COLOURS[3], "linewidth": 0.5, "alpha": 0.55, "zorder": 1}
#: minimum distance between tick labels, relative to the length of the axis
SPACE = 0.09


@styled
def draw_transfer(
    summary: pd.DataFrame, task: str, metrics: Mapping[str, str], controls: Mapping[str, tuple[int, str]]
) -> Figure:
    """Draw a row of panels per mixture, a column per kind of tuning, a line per encoder.

    `controls` maps methods of controls to their place in `CONTROLS` and name.
    """
    summary = summary[(summary["task"] == task) & (summary["metric"] == metrics[task])]
    sources = SOURCES | {method: (name, _look(place)) for method, (place, name) in controls.items()}
    mixtures = list(dict.fromkeys(summary["mixture"]))
    tunings = [tuning for tuning in TUNINGS if tuning in set(summary["tuning"])]
    size = (0.6 + 2.6 * len(tunings), 0.75 + 2.0 * len(mixtures))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(mixtures), len(tunings), sharex=True, sharey=True, squeeze=False)
    name = metric(metrics[task]).name
    for line, mixture in zip(grid, mixtures, strict=True):
        line[0].set_ylabel(f"{name} (%)")
        if len(mixtures) > 1:
            line[0].set_title(mixture, loc="left", fontweight="bold")
        for axes, tuning in zip(line, tunings, strict=True):
            panel = summary[(summary["mixture"] == mixture) & (summary["tuning"] == tuning)]
            _draw_panel(axes, panel, sources)
    for axes, tuning in zip(grid[0], tunings, strict=True):
        axes.set_title(TUNINGS[tuning] + "\n" * (len(mixtures) > 1))  # above the mixture's name
    for axes in grid[-1]:
        axes.set_xlabel("training samples")
    legend(figure)
    return figure


def _look(place: int) -> dict[str, Any]:
    colour, marker = CONTROLS[place % len(CONTROLS)]
    return {"color": COLOURS[colour], "marker": marker, "linestyle": "--", "markerfacecolor": "white"}


def _draw_panel(axes: Axes, panel: pd.DataFrame, sources: dict[str, tuple[str, dict[str, Any]]]) -> None:
    samples = sorted(panel["samples"].unique())
    methods = [method for method in sources if method in set(panel["method"])]
    axes.set_xscale("log")
    axes.axhline(100 * panel["chance"].iloc[0], color="black", linestyle=":", label="chance")
    for lane, method in enumerate(methods):
        points = panel[panel["method"] == method].sort_values("samples")
        if method == "single":
            for _, one in points[points["source"] != MEAN].groupby("source"):
                axes.plot(one["samples"], 100 * one["value"], label="single-task, each", **SINGLE_TASK)
            points = points[points["source"] == MEAN]
        label, look = sources[method]
        x = points["samples"]
        axes.plot(x, 100 * points["value"], label=label, **look)
        ends = 100 * points["ci_low"], 100 * points["ci_high"]
        draw_upright(axes, x, *ends, lane, len(methods), color=look["color"], zorder=look.get("zorder", 2))
    axes.set_xticks(samples, _tick_labels(samples))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y")


def _tick_labels(samples: list[int]) -> list[str]:
    """Return numbers of samples as labels, empty where a label would overlap that before."""
    labels, last = [""] * len(samples), -math.inf
    span = math.log(samples[-1] / samples[0]) or 1.0
    for i, n in enumerate(samples):
        place = math.log(n / samples[0]) / span
        if place - last >= SPACE:
            labels[i], last = str(n), place
    return labels
