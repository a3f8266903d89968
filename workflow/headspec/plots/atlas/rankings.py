"""Rankings of heads: agreement of measures, pruning curves, and which ranking to trust."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import blended_transform_factory
from numpy.typing import NDArray

from headspec.config.values import MEAN, RANDOM, SAME_LAYERS, TOP
from headspec.numbers import number
from headspec.plots.atlas.maps import panels, rows_of
from headspec.plots.drawing.marks import mark_chance
from headspec.plots.drawing.methods import METHOD_MARKERS
from headspec.plots.drawing.style import (
    COLOURS,
    MARKERS,
    PAGE,
    SIGNED,
    in_order,
    interval_label,
    key,
    legend,
    styled,
)
from headspec.statistics.chance import MARKS, task_chances
from headspec.statistics.intervals import decisive, of_seeds
from headspec.statistics.resampling import SIGNIFICANCE
from headspec.tasks.metrics import metric

#: maximum side of a cell in inches, and the minimum with room for small print
CELL, ROOM = 0.55, 0.36


@styled
def draw_agreement(agreement: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """Draw a matrix of measures: Spearman correlation below the diagonal, overlap of the top heads above it.

    Cells show the mean over tasks with its range in small print; for one task, the value and its interval.
    Small print is left out where cells lack room.
    """
    shown = {*agreement["measure_a"], *agreement["measure_b"]}
    measures = [measure for measure in labels if measure in shown]
    names = [labels[measure] for measure in measures]
    label_width = 0.15 + 0.053 * max(map(len, names))
    side = min(CELL, (PAGE - label_width) / len(measures))
    extent = side * len(measures)
    size = (max(label_width + extent, 3.2), extent + label_width + 0.2)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    values = np.full((len(measures), len(measures)), np.nan)
    place = {measure: index for index, measure in enumerate(measures)}
    for pair, rows in agreement.groupby(["measure_a", "measure_b"]):
        first, second = sorted(place[str(measure)] for measure in pair)
        for column, cell in (("spearman", (second, first)), ("top_overlap", (first, second))):
            values[cell] = rows[column].mean()
            _write_agreement(axes, cell, rows, column, small=side >= ROOM)
    axes.imshow(values, cmap=SIGNED, vmin=-1, vmax=1)
    axes.set_facecolor("0.9")  # for the diagonal
    axes.set_xticks(range(len(measures)), names, rotation=90)
    axes.set_yticks(range(len(measures)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.suptitle("below the diagonal: Spearman; above: overlap of top heads", fontsize="medium")
    return figure


def _write_agreement(axes: Axes, cell: tuple[int, int], rows: pd.DataFrame, column: str, small: bool) -> None:
    """Write the value into a cell (row, column), and its interval or range if there is room (`small`)."""
    row, col = cell
    axes.text(
        col, row, number(rows[column].mean()), ha="center", va="bottom" if small else "center",
        fontsize=6.5 if small else 5.5,
    )  # fmt: skip
    if small:
        bounds = rows[column] if len(rows) > 1 else rows[[f"{column}_low", f"{column}_high"]].iloc[0]
        text = f"{number(bounds.min())}, {number(bounds.max())}".replace("0.", ".")
        axes.text(col, row + 0.1, text, ha="center", va="top", fontsize=4)


#: part of the titles of panels, if there are both orders
FIRST = {"top": "top heads first", "bottom": "bottom heads first"}
LINES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
#: style of the mean over random orders
RANDOM_LINE: dict[str, Any] = {"color": "0.35", "linewidth": 1.6, "zorder": 1.8}


@styled
def draw_pruning_curves(
    curves: pd.DataFrame,
    cumulative: pd.DataFrame,
    tasks: Sequence[str],
    metrics: Mapping[str, str],
    labels: Mapping[str, str],
    places: Mapping[str, int],
) -> Figure:
    """Draw a panel per task and order: the metric (mean over seeds) as more heads are pruned, up to all.

    There is a line for each ranking, and for some rankings one for random heads of the same layers.
    """
    unpruned = cumulative.query("ranking == @RANDOM and draw == 0 and fraction == 0")
    chance = task_chances(unpruned, metrics)
    orders = [order for order in FIRST if (curves["order"] == order).any()]
    shown = list(itertools.product(tasks, orders))
    shape = rows_of(len(shown), most=3 if len(orders) == 1 else 2)
    figure, grid = panels(shape, len(shown), min(4.8, PAGE / shape[1]), 2.05, 0.6)
    for axes, (task, order) in zip(grid, shown, strict=True):
        of_task = curves[curves["task"] == task].sort_values("fraction")
        _lines(axes, of_task[of_task["order"] == order], labels, places)
        if order == TOP:
            _same_layers(axes, of_task[of_task["order"] == SAME_LAYERS], labels, places)
        axes.axhline(100 * chance[task], color="black", linestyle=":", linewidth=0.8, label="chance")
        axes.set_title(task if len(orders) == 1 else f"{task}, {FIRST[order]}")
        axes.set_xlabel("heads pruned (%)")
        axes.set_ylabel(f"{metric(metrics[task]).name} (%)")
        axes.set_xlim(-2, 102)
        axes.grid(axis="y")
    legend(figure)
    return figure


def ranking_look(place: int) -> dict[str, Any]:
    """Return colour, marker and line style of a ranking in every figure.

    When markers are used up, they return hollow, then half full.
    """
    colour, turn = COLOURS[place % len(COLOURS)], place // len(MARKERS)
    return {
        "color": colour,
        "marker": MARKERS[place % len(MARKERS)],
        "markerfacecolor": "white" if turn == 1 else colour,
        "fillstyle": "left" if turn == 2 else "full",
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
            # alternate the markers of neighbouring lines, so that they do not hide each other
            axes.plot(x, y, label=labels[ranking], markevery=(i % 2, 2), **ranking_look(places[ranking]))


def _same_layers(
    axes: Axes, panel: pd.DataFrame, labels: Mapping[str, str], places: Mapping[str, int]
) -> None:
    """Draw the mean over random orders with as many heads of each layer as a ranking."""
    for ranking in (ranking for ranking in labels if (panel["ranking"] == ranking).any()):
        rows = panel[panel["ranking"] == ranking]
        axes.plot(
            100 * rows["fraction"], 100 * rows["value"], color=ranking_look(places[ranking])["color"],
            linestyle=":", linewidth=1.6, zorder=1.9, label=f"same layers as {labels[ranking]}, random",
        )  # fmt: skip


#: column of the table: title of its panel, and factor to the unit there
PANELS = {
    "ablation_spearman": ("ablation\n(Spearman)", 1),
    "ablation_size_spearman": ("ablation size\n(Spearman)", 1),
    "area": ("area under pruning\ncurve (%)", 100),
    "dissociation": ("dissociation D (%)", 100),
}
#: height of all rows in inches, above which rows move closer together
ROWS_HEIGHT = 8.5
LINELESS: dict[str, Any] = {"linestyle": "none", "markersize": 4, "markeredgewidth": 0.8}
#: columns that identify a row
KEYS = ["model", "mixture", "ranking"]


@styled
def draw_belief(belief: pd.DataFrame, labels: Mapping[str, str], mixtures: Sequence[str]) -> Figure:
    """Draw a row per ranking in a block per model and mixture, sorted by area, smallest on top.

    Panels show Spearman correlation with ablation and with its size, area under the pruning curve, and
    dissociation. A marker is filled if the value differs from 0, or the area from that of random orders, and
    the unpruned model is not at chance.
    """
    means = belief[belief["task"] == MEAN]
    methods = [method for method in METHOD_MARKERS if method in set(means["method"])]
    blocks = {
        (model, mixture): _sorted(rows[rows["mixture"] == mixture], methods)
        for model, rows in means.groupby("model")
        for mixture in in_order(rows["mixture"], mixtures)
    }
    headings = [f"{model}, {mixture}" for model, mixture in blocks]
    lines = sum(1 + len(rankings) for rankings in blocks.values())
    row_height = max(0.12, min(max(0.17, 0.1 * len(methods)), ROWS_HEIGHT / lines))
    size = (max(PAGE, 0.072 * max(map(len, headings))), 1.0 + row_height * lines)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    hollow = False
    rows = _name_rows(figure, panels[0], blocks, headings, labels)
    for axes, (column, (label, factor)) in zip(panels, PANELS.items(), strict=True):
        axes.set_xlabel(label)
        if column != "area":
            axes.axvline(0, color="black", linewidth=0.6)
        for lane, method in enumerate(methods):
            shift = 0.8 * ((lane + 0.5) / len(methods) - 0.5)
            results = _results(means[means["method"] == method], column, factor)
            ys = np.array([rows[key] for key in results[KEYS].itertuples(index=False, name=None)]) + shift
            _draw_results(axes, results, ys, method, interval_label(means))
            hollow |= not results["clear"].all()
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.08)
    random = means[(means["ranking"] == RANDOM) & (means["method"] == methods[0])]
    _mark_random(panels[list(PANELS).index("area")], random, rows, blocks)
    here = "" if of_seeds(means).all() else " in these runs"
    if hollow:
        look = {"marker": "o", "color": "black", "markerfacecolor": "white", **LINELESS}
        key(panels[0], f"hollow: no clear difference{here}", **look)
    legend(figure)
    return figure


def _results(means: pd.DataFrame, column: str, factor: float) -> pd.DataFrame:
    """Return results of a method in a panel: value, low, high, clear (if its marker is filled), `MARKS`."""
    low, high = means[f"{column}_low"], means[f"{column}_high"]
    p = {"area": "difference_p", "dissociation": "dissociation_p"}.get(column)
    clear = decisive(means, p) < SIGNIFICANCE if p else (low > 0) | (high < 0)
    nothing, marked = means["unpruned_at_chance"].eq(True), means.reindex(columns=list(MARKS))
    shown = means[[*KEYS, "ci_over"]].assign(
        value=factor * means[column], low=factor * low, high=factor * high, clear=clear & ~nothing,
        **{flag: marked[flag].eq(True) & (column == "dissociation") for flag in MARKS},
    )  # fmt: skip
    return shown.dropna(subset="value")


def _sorted(rows: pd.DataFrame, methods: Sequence[str]) -> list[str]:
    """Return the rankings of a block, by area for the first of `methods` that has them."""
    order = rows["method"].map(list(methods).index)
    first = rows.assign(order=order).sort_values("order", kind="stable").drop_duplicates("ranking")
    return list(first.sort_values(["order", "area"])["ranking"])


def _name_rows(
    figure: Figure,
    axes: Axes,
    blocks: Mapping[Any, list[str]],
    headings: Sequence[str],
    labels: Mapping[str, str],
) -> dict[tuple[str, ...], int]:
    """Write the names of rankings and headings of blocks; return y by model, mixture, ranking."""
    rows: dict[tuple[str, ...], int] = {}
    y = 0
    for (block, rankings), heading in zip(blocks.items(), headings, strict=True):
        text = figure.text(
            0.01, y, heading, fontweight="bold", va="center",
            transform=blended_transform_factory(figure.transFigure, axes.transData),
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip
        text.set_in_layout(False)
        rows |= {(*block, ranking): y + 1 + i for i, ranking in enumerate(rankings)}
        y += 1 + len(rankings)
    axes.set_yticks(list(rows.values()), [labels[ranking] for *_, ranking in rows])
    axes.set_ylim(y - 0.4, -0.6)
    return rows


def _draw_results(
    axes: Axes, results: pd.DataFrame, ys: NDArray[np.float64], method: str, interval: str
) -> None:
    """Draw values and intervals of one method, and mark values at chance."""
    if results.empty:
        return
    look = METHOD_MARKERS[method]
    axes.hlines(ys, results["low"], results["high"], color="black", label=interval)
    clear = results["clear"].to_numpy(dtype=bool)
    for chosen, fill in ((clear, look["color"]), (~clear, "white")):
        axes.plot(results["value"][chosen], ys[chosen], markerfacecolor=fill, zorder=3, **LINELESS, **look)
    key(axes, method, **LINELESS, **look)
    mark_chance(axes, results, ys)


def _mark_random(
    axes: Axes, random: pd.DataFrame, rows: Mapping[tuple[str, ...], int], blocks: Mapping[Any, list[str]]
) -> None:
    """Draw a line through each block at the area of random orders."""
    for model, mixture, value in random[["model", "mixture", "area"]].itertuples(index=False):
        ys = [rows[model, mixture, ranking] for ranking in blocks[model, mixture]]
        axes.vlines(
            100 * value, min(ys) - 0.5, max(ys) + 0.5, color="0.5", linestyle=(0, (4, 2)), linewidth=0.7,
            zorder=1, label="random",
        )  # fmt: skip
