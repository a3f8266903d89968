"""Metric against the heads pruned: top, bottom and random heads."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots.drawing.style import PAGE, at_fraction, key, legend, stacked, styled, task_style
from headspec.plots.drawing.unlearnt import marked, name_mark, unlearnt
from headspec.statistics.chance import task_chances
from headspec.tasks.metrics import metric

#: kind of random heads: (side of the main fraction, look of the box)
BOXES: dict[str, tuple[int, dict[str, Any]]] = {
    "random": (-1, {"facecolor": "0.93"}),
    "random_by_layer": (1, {"facecolor": "white", "hatch": "xxxx"}),
}
#: lines for the top heads of the evaluated task, of the other tasks, and for its bottom heads
EVALUATED: dict[str, Any] = {"linewidth": 2.2, "markersize": 4.5, "zorder": 4}
OTHERS: dict[str, Any] = {"linewidth": 0.9}
BOTTOM: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white", "zorder": 3}


@styled
def draw(
    pruning: Mapping[int, pd.DataFrame],
    predictions: Mapping[int, pd.DataFrame],
    tasks: Sequence[str],
    fraction: float,
    metrics: Mapping[str, str],
    counted: bool = False,
) -> Figure:
    """A panel per evaluated task: its main metric (mean over seeds) as more heads are pruned.

    Random draws stand beside the main fraction. If `counted`, heads are numbers instead of per cent.
    """
    frame = stacked(pruning)
    frame = frame[frame["metric"] == frame["task"].map(metrics)]
    frame = frame.assign(pruned=frame["n_pruned"] if counted else 100 * frame["fraction"])
    columns = min(3, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    size = (min(PAGE, 0.3 + 2.5 * columns), 0.75 + 1.75 * rows)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    nothing = unlearnt(predictions, metrics)
    draws = _drawn_on(frame)
    chance = task_chances(next(iter(predictions.values())).query("pruned_for == 'none'"), metrics)
    name_mark(grid[0], nothing)
    _keys(grid[0], tasks, bottom=bool((frame["order"] == "bottom").any()))
    for axes, evaluated in zip(grid, tasks, strict=False):
        panel = frame[frame["task"] == evaluated].assign(value=lambda rows: 100 * rows["value"])
        _lines(axes, panel, tasks, evaluated)
        _boxes(axes, panel, fraction, draws)
        axes.axhline(100 * chance[evaluated], color="black", linestyle=":", label="chance")
        axes.set_title(marked(evaluated, nothing))
        axes.set_xlabel("heads pruned" if counted else "heads pruned (%)")
        axes.set_ylabel(f"{metric(metrics[evaluated]).name} (%)")
        axes.grid(axis="y")
    for axes in grid[len(tasks) :]:
        axes.remove()
    legend(figure)
    return figure


def _lines(axes: Axes, panel: pd.DataFrame, tasks: Sequence[str], evaluated: str) -> None:
    """Draw the curves of one panel from the base on; the evaluated task's own heads stand out."""
    base = panel[panel["pruned_for"] == "none"]
    for task in tasks:
        style, is_evaluated = task_style(tasks, task), task == evaluated
        heads = panel[panel["pruned_for"] == task]
        top = _curve(base, heads[heads["order"] == "top"])
        axes.plot(top, **style, **(EVALUATED if is_evaluated else OTHERS))
        if is_evaluated:
            bottom = heads[heads["order"] == "bottom"]
            if not bottom.empty:
                axes.plot(_curve(base, bottom), **style, **BOTTOM)


def _keys(axes: Axes, tasks: Sequence[str], bottom: bool) -> None:
    """Add the legend entries, which no single panel could provide."""
    for task in tasks:
        key(axes, f"top heads of {task}", **task_style(tasks, task), **OTHERS)
    key(axes, "top heads of the evaluated task", color="0.3", **EVALUATED)
    if bottom:
        key(axes, "bottom heads of the evaluated task", color="0.3", marker="o", **BOTTOM)


def _curve(base: pd.DataFrame, pruned: pd.DataFrame) -> pd.Series:
    """Mean over seeds by heads pruned."""
    return pd.concat([base, pruned]).groupby("pruned")["value"].mean()


def _drawn_on(frame: pd.DataFrame) -> str:
    """What a box is: its range depends on how many examples a draw is evaluated on, if not on all."""
    random = frame["pruned_for"].isin(BOXES)
    numbers = sorted({int(n) for n in frame.loc[random, "n"]})
    if not numbers or numbers[-1] >= frame.loc[~random, "n"].min():
        return "range of draws"
    examples = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    return f"range of draws on {examples} examples"


def _boxes(axes: Axes, panel: pd.DataFrame, fraction: float, draws_on: str) -> None:
    """Draw the range and mean of the random draws of all seeds beside the main fraction."""
    width = 0.044 * panel["pruned"].max()
    for kind, (side, look) in BOXES.items():
        rows = at_fraction(panel[panel["pruned_for"] == kind], fraction)
        if rows.empty:
            continue
        draws, left = rows["value"], rows["pruned"].iloc[0] + (0 if side > 0 else -width)
        low, high = draws.min(), draws.max()
        box = look | {"edgecolor": "0.7", "linewidth": 0.5, "align": "edge", "zorder": 1.5}
        axes.bar(left, high - low, width, low, label=f"{kind.replace('_', ' ')}: {draws_on}", **box)
        axes.hlines(draws.mean(), left, left + width, color="0.2", linewidth=1.2, zorder=5)
