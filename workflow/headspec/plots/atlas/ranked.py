"""Metric against the fraction of heads pruned in the order of every measure."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.config.values import RANDOM
from headspec.plots.atlas.measures import panels, rows_of
from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, legend, styled
from headspec.statistics.chance import task_chances
from headspec.tasks.metrics import metric

#: in the titles of panels, if there are both orders
FIRST = {"top": "top heads first", "bottom": "bottom heads first"}
LINES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
#: look of the mean over random orders
RANDOM_LINE: dict[str, Any] = {"color": "0.35", "linewidth": 1.6, "zorder": 1.8}


@styled
def draw(
    curves: pd.DataFrame,
    cumulative: pd.DataFrame,
    tasks: Sequence[str],
    metrics: Mapping[str, str],
    labels: Mapping[str, str],
    places: Mapping[str, int],
) -> Figure:
    """A panel per task and order: metric (mean over seeds) as all heads are pruned; a line per ranking."""
    unpruned = cumulative.query("ranking == @RANDOM and draw == 0 and fraction == 0")
    chance = task_chances(unpruned, metrics)
    orders = [order for order in FIRST if (curves["order"] == order).any()]
    shown = list(itertools.product(tasks, orders))
    shape = rows_of(len(shown), most=3 if len(orders) == 1 else 2)
    figure, grid = panels(shape, len(shown), min(4.8, PAGE / shape[1]), 2.05, 0.6)
    for axes, (task, order) in zip(grid, shown, strict=True):
        panel = curves[(curves["task"] == task) & (curves["order"] == order)].sort_values("fraction")
        _lines(axes, panel, labels, places)
        axes.axhline(100 * chance[task], color="black", linestyle=":", linewidth=0.8, label="chance")
        axes.set_title(task if len(orders) == 1 else f"{task}, {FIRST[order]}")
        axes.set_xlabel("heads pruned (%)")
        axes.set_ylabel(f"{metric(metrics[task]).name} (%)")
        axes.set_xlim(-2, 102)
        axes.grid(axis="y")
    legend(figure)
    return figure


def look(place: int) -> dict[str, Any]:
    """Colour, marker and line style of a ranking in every figure; after the last marker, hollow ones."""
    colour = COLOURS[place % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKERS[place % len(MARKERS)],
        "markerfacecolor": colour if place // len(MARKERS) % 2 == 0 else "white",
        "linestyle": LINES[place % len(LINES)],
    }


def _lines(axes: Axes, panel: pd.DataFrame, labels: Mapping[str, str], places: Mapping[str, int]) -> None:
    """Draw the curve of every ranking, and the range of the random orders."""
    drawn = set(panel["ranking"])
    for i, ranking in enumerate(ranking for ranking in labels if ranking in drawn):
        rows = panel[panel["ranking"] == ranking]
        x, y = 100 * rows["fraction"], 100 * rows["value"]
        if ranking == RANDOM:
            axes.plot(x, y, label="random order, mean", **RANDOM_LINE)
            low, high = 100 * rows["draws_low"], 100 * rows["draws_high"]
            axes.fill_between(
                x, low, high, color="0.85", linewidth=0, zorder=1, label="range of random orders"
            )
        else:
            # markers of neighbours in turn, so that they do not hide one another
            axes.plot(x, y, label=labels[ranking], markevery=(i % 2, 2), **look(places[ranking]))
