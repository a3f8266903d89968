"""Gains of tasks from sharing an encoder, alone, in pairs and in groups; measured and predicted."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from headspec.numbers import number
from headspec.plots.drawing.heat_maps import shade_gaps
from headspec.plots.drawing.style import SIGNED, colour_bar, in_order, points, styled
from headspec.statistics.grouping.gains import between_pairs
from headspec.statistics.intervals import clear
from headspec.tasks.metrics import metric

#: which predictions are shown
PREDICTOR, HELD_OUT = "baseline+all", 1
#: maximum number of tasks for which the two matrices are side by side
BESIDE = 6


@styled
def draw_gains(
    gains: pd.DataFrame,
    predictions: pd.DataFrame | None,
    metrics: Mapping[str, str],
    groups: Sequence[Collection[str]] | None = None,
) -> Figure:
    """Draw a matrix of measured gains (rows: targets, columns: sources) and, if any, one of predicted gains.

    Cells show the gain in points, mean over seeds; a star where it is significant for other seeds too, ×
    where the target is better than chance neither in the pair nor alone. Orange is gained, blue lost. Tasks
    of a group are adjacent and outlined.
    """
    pairs = between_pairs(gains[gains["metric"] == gains["task"].map(metrics)])
    measured = [task for task in metrics if task in {*pairs["target"]}]
    blocks = [[task for task in measured if task in group] for group in groups or []]
    tasks = in_order(measured, list(itertools.chain(*blocks)))
    marks = {"×": pairs["unpruned_at_chance"].eq(True), "*": clear(pairs)}
    marked = np.select(list(marks.values()), list(marks), "")
    shown = {"measured": pairs.assign(gain=pairs["difference"], mark=marked)}
    if predictions is not None:
        kept = predictions["predictor"].eq(PREDICTOR) & predictions["held_out"].eq(HELD_OUT)
        predicted = predictions[kept & predictions["predicted"].notna()]
        if len(predicted):
            shown["predicted, out of sample"] = predicted.assign(gain=predicted["predicted"], mark="")
    largest = max(0.01, *(frame["gain"].abs().max() for frame in shown.values()))
    alone = pairs.groupby("target")["alone"].first()
    labels = [f"{task}\n{metric(metrics[task]).name} {number(100 * alone[task], 1)}" for task in tasks]
    figure, panels = _gain_panels(len(shown), tasks, labels)
    for axes, (title, frame) in zip(panels, shown.items(), strict=True):
        axes.set_title(title)
        image = _draw_matrix(axes, frame, tasks, 100 * largest)
        for block in filter(None, blocks):
            corner, side = tasks.index(block[0]) - 0.5, len(block)
            outline = Rectangle((corner, corner), side, side, fill=False, linewidth=1.6, zorder=3)
            axes.add_patch(outline).set_clip_on(False)
    if marks["×"].any():
        panels[0].set_xlabel("source\n×: no better than chance, nor is single-task")
    colour_bar(figure, image, "gain (points)", ax=panels, aspect=6 * figure.get_figheight(), pad=0.02)
    return figure


def _gain_panels(n: int, tasks: list[str], labels: list[str]) -> tuple[Figure, list[Axes]]:
    """Return a figure with `n` panels, side by side if there are few tasks, with task names at the sides."""
    beside, k = len(tasks) <= BESIDE, len(tasks)
    rows, columns = (1, n) if beside else (n, 1)
    longest = 0.062 * max(map(len, tasks))
    cell = min(0.55, max(0.36, 2.4 / k))
    size = (0.95 + longest + columns * cell * k, rows * (0.29 * k + longest + 0.45))
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(rows, columns, sharey=True, squeeze=False).ravel())
    for axes in panels:
        axes.set_xticks(range(k), tasks, rotation=90)
        axes.set_yticks(range(k), labels)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("source")
        if axes is panels[0] or not beside:
            axes.set_ylabel("target\n(metric alone in %)")
    return figure, panels


def _draw_matrix(axes: Axes, gains: pd.DataFrame, tasks: list[str], largest: float) -> AxesImage:
    """Draw gains in points; pairs without one are hatched."""
    wide = gains.set_index(["target", "source"])["gain"].unstack("source").reindex(index=tasks, columns=tasks)
    matrix = 100 * wide.to_numpy(dtype=float)
    np.fill_diagonal(matrix, 0)
    shade_gaps(axes, ~np.isnan(matrix))
    image = axes.imshow(matrix, cmap=SIGNED.reversed(), vmin=-largest, vmax=largest, aspect="auto")
    for _, row in gains[gains["gain"].notna()].iterrows():
        at = tasks.index(row["source"]), tasks.index(row["target"])
        axes.text(*at, points(row["gain"]) + row["mark"], ha="center", va="center", fontsize="small")
    return image


#: name of training on the task alone
SINGLE = "single-task"


@styled
def draw_sharing(sharing: pd.DataFrame, metrics: Mapping[str, str]) -> Figure:
    """Draw a row for each task; a column for the task alone, each partner in a pair, and each group.

    Cells show the metric in per cent, mean over seeds, and the difference from the task alone in points; a
    star where it is significant for other seeds too, × where neither is better than chance. Blue is lost,
    orange gained.
    """
    main = sharing[sharing["metric"] == sharing["task"].map(metrics)]
    main = main[main["method"].isin(["single", "tuned", "iat", "even"])]
    members = main.groupby(["mixture", "method"])["task"].agg(list)
    tasks = [task for task in metrics if task in {*main["task"]}]
    main = main.assign(
        column=[_sharing_column(row, members) for row in main.itertuples()],
        nothing=main["unpruned_at_chance"].eq(True),
        clear=clear(main),
    )
    pairs = [SINGLE, *(f"+ {task}" for task in tasks)]
    others = [name for name in main["column"].unique() if name not in pairs]
    others.sort(key=lambda name: "\n" in name)  # plain training first
    columns = [name for name in [*pairs, *others] if name in {*main["column"]}]
    cells = main.set_index(["task", "column"])
    lost = cells["difference"].unstack("column").reindex(index=tasks, columns=columns)
    largest = 100 * max(0.01, float(np.nanmax(np.abs(lost.to_numpy(dtype=float)), initial=0.0)))
    longest = max(len(line) for name in columns for line in name.split("\n"))
    width = 1.6 + max(0.75, 0.058 * longest) * len(columns)
    figure = Figure(figsize=(width, 0.9 + 0.42 * len(tasks)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(-100 * lost.astype(float), cmap=SIGNED, vmin=-largest, vmax=largest, aspect="auto")
    for _, row in main.iterrows():
        text = f"{number(100 * row['value'], 1)}{' ×' if row['nothing'] else ''}"
        if pd.notna(row["difference"]):
            star = "*" if row["clear"] and not row["nothing"] else ""
            text += f"\n{points(row['difference'])}{star}"
        at = columns.index(row["column"]), tasks.index(row["task"])
        axes.text(*at, text, ha="center", va="center", fontsize="small", linespacing=1.05)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(tasks)), [f"{task}\n{metric(metrics[task]).name}" for task in tasks])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    key = "\n×: no better than chance, nor is single-task" if main["nothing"].any() else ""
    compared = colour_bar(figure, image, "lost (points), below 0 gained", ax=axes, aspect=14, pad=0.02)
    unit = "metric in %" + ",\ndifference from single-task in points" * bool(compared)
    axes.set_xlabel(f"trained ({unit}){key}")
    return figure


def _sharing_column(row: Any, members: pd.Series) -> str:
    """Return the partners of a task in training: none, a task, or a group; and a method that is not plain."""
    if row.method == "single":
        return SINGLE
    others = [task for task in members[row.mixture, row.method] if task != row.task]
    name = f"+ {others[0]}" if len(others) == 1 else row.mixture
    return name if row.method == "tuned" else f"{name}\n{row.method}"
