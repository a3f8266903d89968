"""Metrics and dissociation by fraction or number of heads pruned."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from headspec.config.values import MEAN
from headspec.numbers import number
from headspec.plots.drawing.marks import MARKED, marked, name_mark, unlearnt
from headspec.plots.drawing.style import (
    PAGE,
    at_fraction,
    draw_upright,
    interval_label,
    key,
    legend,
    stacked,
    styled,
    task_style,
)
from headspec.statistics.chance import SAYS, marks, task_chances
from headspec.tasks.metrics import metric

#: random heads: (side of the main fraction, style of the box)
BOXES: dict[str, tuple[int, dict[str, Any]]] = {
    "random": (-1, {"facecolor": "0.93"}),
    "random_by_layer": (1, {"facecolor": "white", "hatch": "xxxx"}),
}
#: lines for the top heads of the evaluated task, those of other tasks, and its bottom heads
EVALUATED: dict[str, Any] = {"linewidth": 2.2, "markersize": 4.5, "zorder": 4}
OTHERS: dict[str, Any] = {"linewidth": 0.9}
BOTTOM: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white", "zorder": 3}


@styled
def draw_curves(
    pruning: Mapping[int, pd.DataFrame],
    predictions: Mapping[int, pd.DataFrame],
    tasks: Sequence[str],
    fraction: float,
    metrics: Mapping[str, str],
    counted: bool = False,
) -> Figure:
    """Draw a panel per evaluated task: its main metric (mean over seeds) as more heads are pruned.

    Random draws are beside the main fraction. If `counted`, x is the number of heads instead of per cent.
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
    """Draw the curves of one panel, starting at the base; the evaluated task's own heads stand out."""
    base = panel[panel["pruned_for"] == "none"]
    for task in tasks:
        style, is_evaluated = task_style(tasks, task), task == evaluated
        heads = panel[panel["pruned_for"] == task]
        top = _metric_curve(base, heads[heads["order"] == "top"])
        axes.plot(top, **style, **(EVALUATED if is_evaluated else OTHERS))
        if is_evaluated:
            bottom = heads[heads["order"] == "bottom"]
            if not bottom.empty:
                axes.plot(_metric_curve(base, bottom), **style, **BOTTOM)


def _keys(axes: Axes, tasks: Sequence[str], bottom: bool) -> None:
    """Add legend entries that no single panel provides."""
    for task in tasks:
        key(axes, f"top heads of {task}", **task_style(tasks, task), **OTHERS)
    key(axes, "top heads of the evaluated task", color="0.3", **EVALUATED)
    if bottom:
        key(axes, "bottom heads of the evaluated task", color="0.3", marker="o", **BOTTOM)


def _metric_curve(base: pd.DataFrame, pruned: pd.DataFrame) -> pd.Series:
    """Return the mean over seeds by number or per cent of heads pruned."""
    return pd.concat([base, pruned]).groupby("pruned")["value"].mean()


def _drawn_on(frame: pd.DataFrame) -> str:
    """Return the legend entry of a box, whose range depends on how many examples a draw is evaluated on."""
    random = frame["pruned_for"].isin(BOXES)
    numbers = sorted({int(n) for n in frame.loc[random, "n"]})
    if not numbers or numbers[-1] >= frame.loc[~random, "n"].min():
        return "range of draws"
    examples = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    return f"range of draws on {examples} examples"


def _boxes(axes: Axes, panel: pd.DataFrame, fraction: float, draws_on: str) -> None:
    """Draw range and mean of the random draws of all seeds beside the main fraction."""
    width = 0.044 * panel["pruned"].max()
    for random, (side, look) in BOXES.items():
        rows = at_fraction(panel[panel["pruned_for"] == random], fraction)
        if rows.empty:
            continue
        draws, left = rows["value"], rows["pruned"].iloc[0] + (0 if side > 0 else -width)
        low, high = draws.min(), draws.max()
        box = look | {"edgecolor": "0.7", "linewidth": 0.5, "align": "edge", "zorder": 1.5}
        axes.bar(left, high - low, width, low, label=f"{random.replace('_', ' ')}: {draws_on}", **box)
        axes.hlines(draws.mean(), left, left + width, color="0.2", linewidth=1.2, zorder=5)


#: maximum number of panels per row
COLUMNS = 4
#: styles of the mean over tasks, and of that mean for the control
MEAN_LINE: dict[str, Any] = {"color": "black", "linewidth": 1.8, "zorder": 2}
CONTROL_LINE: dict[str, Any] = {
    "color": "0.45",
    "linestyle": (0, (4, 2)),
    "zorder": 1.5,
    "label": "mean, frozen",
}
#: style of a value at chance
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "linestyle": "none", "zorder": 5}
#: mark of values of an unpruned model that is no better than chance: (word in the legend, style)
CROSSED: dict[str, tuple[str, dict[str, Any]]] = {
    mark: (word, {"marker": MARKED[mark]["marker"], "linestyle": "none", "markersize": size, "zorder": 6})
    for mark, word, size in (("×", "crossed", 5), ("↓", "arrow", 7))
}


def mixture_grid(mixtures: Collection[str], label: str) -> tuple[Figure, list[Axes]]:
    """Return a figure and axes for each mixture, wide enough for its name; `label` is that of y."""
    width = max(1.6, 0.07 * max(map(len, mixtures)))  # of the longest name
    columns = max(1, min(COLUMNS, len(mixtures), int((PAGE - 0.5) / width)))
    rows = math.ceil(len(mixtures) / columns)
    size = (min(PAGE, 0.5 + max(2.1, width) * columns), 0.8 + 1.75 * rows)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    panels = list(grid.ravel()[: len(mixtures)])
    for axes in grid.ravel()[len(mixtures) :]:
        axes.remove()
    for axes in panels[-columns:]:  # the bottom panel of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("heads pruned (%)")
    for axes in panels[::columns]:
        axes.set_ylabel(label)
    return figure, panels


@styled
def draw_fractions(
    fractions: pd.DataFrame,
    areas: pd.DataFrame,
    mixtures: Mapping[str, Sequence[str]],
    main: float,
    method: str,
) -> Figure:
    """Draw a panel per mixture: D of every task by fraction of heads pruned, starting at 0.

    A line shows the `main` fraction. Unless `method` is `frozen`, the mean for `frozen` is added.
    """
    figure, panels = mixture_grid(mixtures, "dissociation D (%)")
    tasks = list(dict.fromkeys(task for members in mixtures.values() for task in members))
    for axes, (mixture, members) in zip(panels, mixtures.items(), strict=True):
        in_mixture = fractions[fractions["mixture"] == mixture]
        panel = in_mixture[in_mixture["method"] == method]
        axes.axhline(0, color="black", linewidth=0.6)
        axes.axvline(100 * main, color="0.6", linestyle=":", label="main fraction")
        for i, task in enumerate(members):
            of_task, look = panel[panel["task"] == task], task_style(tasks, task)
            _fraction_curve(axes, of_task, task, look, (i, len(members)))
        _dissociation_curve(axes, panel[panel["task"] == MEAN], MEAN_LINE | {"label": "mean over tasks"})
        if method != "frozen":
            frozen = in_mixture[in_mixture["method"] == "frozen"]
            _dissociation_curve(axes, frozen[frozen["task"] == MEAN], CONTROL_LINE)
        axes.set_title("\n".join([mixture, *_area(areas, mixture, method)]))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
        axes.grid(axis="y")
    legend(figure)
    return figure


def _dissociation_curve(axes: Axes, rows: pd.DataFrame, look: Mapping[str, Any]) -> None:
    """Draw D by fraction, from 0 % of the heads, where it is 0."""
    if len(rows):
        axes.plot([0, *100 * rows["fraction"]], [0, *100 * rows["dissociation"]], **look)
        _cross_unlearnt(axes, rows, 100 * rows["fraction"], look)


def _fraction_curve(
    axes: Axes, rows: pd.DataFrame, task: str, look: dict[str, Any], lane: tuple[int, int]
) -> None:
    """Draw the D of one task with its intervals; hollow where a pruned model is at chance."""
    x = 100 * rows["fraction"]
    axes.plot([0, *x], [0, *100 * rows["dissociation"]], label=task, linewidth=0.9, markevery=slice(1, None),
              **look)  # fmt: skip
    ends = 100 * rows["ci_low"], 100 * rows["ci_high"]
    draw_upright(axes, x, *ends, *lane, color=look["color"], label=interval_label(rows))
    at_chance = rows["at_chance"].to_numpy(dtype=bool)
    axes.plot(x[at_chance], 100 * rows["dissociation"][at_chance], **look | HOLLOW)
    if at_chance.any():
        key(axes, "hollow: at chance", **{"color": "0.3", "marker": "o"} | HOLLOW)
    _cross_unlearnt(axes, rows, x, look)


def _cross_unlearnt(axes: Axes, rows: pd.DataFrame, x: pd.Series, look: Mapping[str, Any]) -> None:
    """Cross out the values of a model that learnt nothing, and mark those of one below chance."""
    found = marks(rows)
    for mark, (word, crossed) in CROSSED.items():
        if (own := found == mark).any():
            axes.plot(x[own], 100 * rows["dissociation"][own], color=look["color"], **crossed)
            key(axes, f"{word}: {SAYS[mark]}", color="0.3", **crossed)


def _area(areas: pd.DataFrame, mixture: str, method: str) -> list[str]:
    """Return a line with the mean over tasks and fractions and its interval; none for a single fraction."""
    keys = (areas["mixture"] == mixture) & (areas["method"] == method) & (areas["task"] == MEAN)
    lines = []
    for row in areas[keys].to_dict("records"):
        area, low, high = (number(100 * row[name], 1) for name in ("area", "ci_low", "ci_high"))
        lines.append(f"mean D {area} % [{low}, {high}]")
    return lines


#: order: label, colour and line style
LOOKS = {
    "top": ("most important heads", "C0", "-"),
    "bottom": ("least important heads", "C2", "--"),
    "random": ("random heads", "0.5", "-"),
    "same_layers": ("random heads, same layers", "0.3", ":"),
}


def plot_curve(curve: pd.DataFrame, axes: Axes | None = None) -> Axes:
    """Draw a curve with its intervals, and return its axes.

    Parameters
    ----------
    curve : from `headspec.head_curve` or `headspec.recovery`
    axes : matplotlib axes, optional; by default those of a new figure

    Examples
    --------
    >>> headspec.plot_curve(headspec.head_curve(model, batches, metric="accuracy"))
    """
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots()
    restored = "restored" in curve
    ends = curve[curve["order"].isin(["none", "all"] if restored else ["none"])]
    whole = ends[ends["order"] == ("all" if restored else "none")]
    for order, (label, colour, line) in LOOKS.items():
        if order not in {*curve["order"]}:
            continue
        part = pd.concat([ends, curve[curve["order"] == order]]).sort_values("fraction")
        x, value = part["fraction"], part["value"]
        axes.fill_between(x, part["low"], part["high"], color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, value, line, color=colour, marker="o", markersize=3.5, label=label)
    axes.axhline(whole["value"].iloc[0], color="black", linestyle=":", linewidth=0.8, label="all heads open")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel(f"of {whole['restored'].iloc[0]} closed heads, restored" if restored else "heads closed")
    examples = f" of {curve.attrs['n']:,} examples" if "n" in curve.attrs else ""
    axes.set_ylabel(curve.attrs.get("metric", "value") + examples)
    axes.legend(frameon=False)
    return axes
