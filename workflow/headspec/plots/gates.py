"""Pruning methods by number of heads kept: metrics, gates during learning, and overlap of kept heads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.config.values import MEAN, WHOLE
from headspec.plots.drawing.marks import marked, name_mark
from headspec.plots.drawing.style import (
    COLOURS,
    MARKERS,
    PAGE,
    draw_upright,
    in_order,
    key,
    legend,
    styled,
)
from headspec.statistics.chance import marks
from headspec.statistics.resampling import SIGNIFICANCE
from headspec.tasks.metrics import metric

#: scope: its heads, in the order of panels
SCOPES = {"shared": "shared heads", "per_task": "own heads"}


def panels(rows: pd.DataFrame, labels: Iterable[str], tasks: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (pruning method, scope, task) of every panel: shared heads first, then by task and by `labels`.

    The task is empty for shared heads.
    """
    combinations = {*zip(rows["way"], rows["scope"], rows["task"], strict=True)}
    names, order = list(labels), in_order(rows["task"], ("", *tasks))
    return sorted(
        combinations, key=lambda row: (row[1] == "per_task", order.index(row[2]), names.index(row[0]))
    )


def scale(rows: pd.DataFrame, value: str, factor: float) -> tuple[float, float]:
    """Return limits of an axis that shows the column `value` times `factor`, and its intervals.

    If all values are from 0 to 1, the ends of intervals beyond these do not count.
    """
    low, high = rows[[value, f"{value}_low"]].min().min(), rows[[value, f"{value}_high"]].max().max()
    if rows[value].between(0, 1).all():
        low, high = max(low, 0.0), min(high, 1.0)
    margin = max(0.04 * (high - low), 0.005)
    return factor * (low - margin), factor * (high + margin)


#: maximum number of panels per row
COLUMNS = 3
#: gates that missed their target
PLUS: dict[str, Any] = {"color": "black", "marker": "+", "linestyle": "none", "markersize": 7, "zorder": 3}
MISSED = "plus: gates missed their target"
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))


def method_style(places: Mapping[str, int], method: str) -> dict[str, Any]:
    """Return colour, marker and line of a pruning method by its place in the list of pruning methods."""
    place = places[method]
    dashes = DASHES[place // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)],
            "linestyle": dashes, "markersize": 3.5, "linewidth": 1.0}  # fmt: skip


@styled
def draw_budgets(
    budgets: pd.DataFrame, metrics: Mapping[str, str], labels: Mapping[str, str], places: Mapping[str, int]
) -> Figure:
    """Draw a panel for each task and scope: a line for each pruning method, and one for the whole model.

    `places` determine the style of pruning methods. The main metric of each task is shown.
    """
    shown = {**metrics, MEAN: MEAN}
    rows = budgets[budgets["metric"] == budgets["task"].map(shown)]
    rows = rows.drop_duplicates(
        ["scope", "way", "fraction", "penalty", "task"]
    )  # not repeated for each comparison
    kinds = [scope for scope in SCOPES if scope in set(rows["scope"])]
    tasks = [task for task in shown if task in set(rows["task"])]
    columns = min(COLUMNS, len(tasks))
    lines = math.ceil(len(tasks) / columns)  # rows of panels for each scope
    size = (PAGE * max(columns, 2) / COLUMNS, 1.0 + 1.9 * lines * len(kinds))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines * len(kinds), columns, squeeze=False)
    for i, scope in enumerate(kinds):
        panels = grid[i * lines : (i + 1) * lines].ravel()
        for axes, task in zip(panels, tasks, strict=False):
            panel = rows[(rows["scope"] == scope) & (rows["task"] == task)]
            _draw_budget(axes, panel, labels, places)
            whole = panel[panel["way"] == WHOLE].drop_duplicates("task").set_index("task")
            nothing = {str(task): mark for task, mark in marks(whole).items() if mark}
            name_mark(axes, nothing)
            axes.set_title(marked(task, nothing) + (f", {SCOPES[scope]}" if len(kinds) > 1 else ""))
            axes.set_ylabel("mean (%)" if task == MEAN else f"{metric(metrics[task]).name} (%)")
        for axes in panels[len(tasks) :]:
            axes.remove()
    for axes in grid[-1]:
        axes.set_xlabel("heads kept")
    legend(figure)
    return figure


def _draw_budget(
    axes: Axes, panel: pd.DataFrame, labels: Mapping[str, str], places: Mapping[str, int]
) -> None:
    """Draw the whole model, and all pruning methods at the numbers of heads that they keep."""
    _draw_whole(axes, panel[panel["way"] == WHOLE], labels[WHOLE])
    pruning_methods = [method for method in labels if method != WHOLE and method in set(panel["way"])]
    for i, method in enumerate(pruning_methods):
        rows, look = panel[panel["way"] == method], method_style(places, method)
        _draw_method(axes, rows, labels[method], look, (i, len(pruning_methods)))
    axes.set_ylim(*scale(panel, "value", 100))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(axis="y")


def _draw_whole(axes: Axes, rows: pd.DataFrame, label: str) -> None:
    """Draw the whole model as a line, with its interval."""
    for row in rows.to_dict("records"):
        axes.axhspan(100 * row["value_low"], 100 * row["value_high"], color="0.93", zorder=0)
        axes.axhline(100 * row["value"], color="black", linewidth=0.9, label=label, zorder=1)


def _draw_method(
    axes: Axes, rows: pd.DataFrame, label: str, look: dict[str, Any], lane: tuple[int, int]
) -> None:
    """Draw the metric of a method with its intervals; hollow where a penalty determined the number of heads.

    A plus marks gates that missed their target, in any of the runs.
    """
    own = rows["fraction"].isna()
    asked = rows[~own].sort_values("heads")
    axes.plot(asked["heads"], 100 * asked["value"], label=label, **look)
    ends = 100 * rows["value_low"], 100 * rows["value_high"]
    draw_upright(axes, rows["heads"], *ends, *lane, color=look["color"])
    hollow = look | {"linestyle": "none", "markerfacecolor": "white", "markersize": 5}
    axes.plot(rows[own]["heads"], 100 * rows[own]["value"], **hollow)
    if own.any():
        key(axes, "hollow: as many as the penalty leaves", **hollow | {"color": "0.3", "marker": "o"})
    missed = rows[rows["missed"] > 0]
    if len(missed):
        axes.plot(missed["heads"], 100 * missed["value"], label=MISSED, **PLUS)


@styled
def draw_learning(gates: pd.DataFrame, labels: Mapping[str, str], places: Mapping[str, int]) -> Figure:
    """Draw two panels by step: the expected number of open heads, and the share of final heads kept so far.

    Each pruning method is shown at its middle fraction of heads, as the mean over seeds and tasks. Methods
    without fractions or with a single step are left out.
    """
    figure = Figure(figsize=(PAGE, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for method in labels:
        rows = gates[gates["way"] == method]
        fractions = sorted(rows["fraction"].dropna().unique())
        if not fractions or rows["step"].nunique() < 2:
            continue
        middle = rows[rows["fraction"] == fractions[len(fractions) // 2]]
        course = _course(middle)
        look = method_style(places, method) | {"label": labels[method], "markevery": 4}
        left.plot(course["open"], **look)
        right.plot(100 * course["final"], **look)
    left.set_ylabel("heads expected to be open")
    right.set_ylabel("final heads among the first (%)")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.set_ylim(-0.03 * axes.get_ylim()[1])  # so that lines at 0 are not cut
        axes.grid(axis="y")
    legend(figure)
    return figure


def _course(gates: pd.DataFrame) -> pd.DataFrame:
    """Return the expected number of open heads, and the share of final heads that would be kept, by step."""
    keys = ["scope", "seed", "task"]
    frame = gates.assign(task=gates["task"].fillna("all"))
    last = frame["step"] == frame.groupby(keys)["step"].transform("max")
    final = frame[last][[*keys, "layer", "head", "kept"]].rename(columns={"kept": "final"})
    merged = frame.merge(final, on=[*keys, "layer", "head"])
    merged["common"] = merged["kept"] & merged["final"]
    sums = merged.groupby([*keys, "step"])[["open_probability", "common", "final"]].sum(min_count=1)
    shares = pd.DataFrame({"open": sums["open_probability"], "final": sums["common"] / sums["final"]})
    return shares.astype(float).groupby("step").mean()


OVERLAP_MARKERS = {"shared": "D", "per_task": "o"}
SEEN: dict[str, Any] = {"linestyle": "none", "markersize": 3.5, "color": "black", "zorder": 3}
EXPECTED: dict[str, Any] = {
    "linestyle": "none",
    "marker": "|",
    "markersize": 8,
    "color": "#cc6677",
    "zorder": 2,
}


@styled
def draw_overlap(overlap: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """Draw a panel for seeds and one for tasks: mean Jaccard of every pruning method and number of heads."""
    means = overlap[overlap["a"] == "mean"]
    order = {method: i for i, method in enumerate(labels)}
    means = means.assign(place=means["way"].map(order)).sort_values(["place", "fraction"], na_position="last")
    names = {
        key: place for place, key in enumerate(dict.fromkeys(map(_overlap_row, means.to_dict("records"))))
    }
    whats = [what for what in ("seeds", "tasks") if what in set(means["what"])]
    size = (min(PAGE, 2.2 + 2.3 * len(whats)), 0.9 + 0.14 * len(names))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(whats), squeeze=False, sharex=True, sharey=True)[0]
    for axes, what in zip(panels, whats, strict=True):
        _draw_overlap(axes, means[means["what"] == what], names)
        axes.set_title(f"between {what}")
        axes.set_xlabel("heads in common (Jaccard)")
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="x")
    texts = [
        f"{labels[method]}, {'open' if fraction is None else f'{100 * fraction:g} %'}"
        for method, fraction in names
    ]
    panels[0].set_yticks(range(len(names)), texts)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    legend(figure)
    return figure


def _overlap_row(row: dict[Any, Any]) -> tuple[str, float | None]:
    return row["way"], None if pd.isna(row["fraction"]) else row["fraction"]


def _draw_overlap(axes: Axes, means: pd.DataFrame, names: Mapping[tuple[str, float | None], int]) -> None:
    for row in means.to_dict("records"):
        y = names[_overlap_row(row)]
        axes.plot([row["jaccard_by_layer"], row["jaccard"]], [y, y], color="0.7", linewidth=0.7, zorder=1)
        axes.plot(row["jaccard_by_layer"], y, label="heads permuted within layers", **EXPECTED)
        look = SEEN | {"marker": OVERLAP_MARKERS[row["scope"]]}
        look["markerfacecolor"] = "black" if row["p_holm"] < SIGNIFICANCE else "white"
        axes.plot(row["jaccard"], y, label=f"{SCOPES[row['scope']]}; filled: p < 0.05, corrected", **look)
    axes.tick_params(axis="y", length=0)
