"""The pruning matrix, the dissociation of every task, and its change by IAT."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from headspec.config.values import MEAN
from headspec.errors import listing
from headspec.numbers import number
from headspec.plots.drawing.marks import DOT, mark_chance, marked, unlearnt
from headspec.plots.drawing.methods import BARS
from headspec.plots.drawing.style import (
    SHADES,
    at_fraction,
    colour_bar,
    draw_intervals,
    heights,
    interval_label,
    legend,
    mixture_panels,
    stacked,
    styled,
    task_style,
)
from headspec.statistics.chance import SAYS
from headspec.statistics.dissociation.scores import relative
from headspec.tasks.metrics import metric

#: rows that belong to no task
BASE, RANDOM = "none", {"random": "random", "random_by_layer": "random by layer"}


@styled
def draw_matrix(
    pruning: Mapping[int, pd.DataFrame],
    predictions: Mapping[int, pd.DataFrame],
    tasks: Sequence[str],
    fraction: float,
    metrics: Mapping[str, str],
) -> Figure:
    """Draw the metric of every task with nothing, the top heads of each task, and random heads pruned.

    Cells show the mean over seeds in per cent, ± the standard deviation over seeds or, for random heads, over
    the draws within a seed; shades show relative performance P (Li et al. 2023, Eq. 5).
    """
    rows = [BASE, *tasks, *RANDOM]
    mean, spread = _cells(pruning, rows, tasks, fraction, metrics)
    performance = relative(mean, mean[0])  # P (rows, tasks)
    cell = max(0.55, 0.068 * max(map(len, tasks)))
    figure = Figure(figsize=(cell * len(tasks) + 1.9, 0.33 * len(rows) + 0.75), layout="constrained")
    axes = figure.subplots()
    lowest = min(0.9, np.floor(10 * max(0, np.nanmin(performance, initial=1))) / 10)
    image = axes.imshow(1 - performance, cmap=SHADES, vmin=0, vmax=1 - lowest, aspect="auto")
    for (row, column), value in np.ndenumerate(mean):
        text = number(100 * value, 1)
        if not np.isnan(spread[row, column]):
            text += f"\n±{100 * spread[row, column]:.1f}"
        axes.text(column, row, text, ha="center", va="center", fontsize="small", linespacing=1.05)
    for index in range(len(tasks)):
        corner = (index - 0.5, index + 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, linewidth=1.6, clip_on=False, zorder=3))
    for edge in (0.5, len(tasks) + 0.5):
        axes.axhline(edge, color="black", linewidth=0.6)
    nothing = unlearnt(predictions, metrics)
    named = [f"{marked(task, nothing)}\n{metric(metrics[task]).name}" for task in tasks]
    axes.set_xticks(range(len(tasks)), named)
    names = ["nothing (base)", *(f"top of {task}" for task in tasks), *RANDOM.values()]
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    over = ["seeds"] * (len(pruning) > 1) + ["draws in random rows"] * (not np.isnan(spread[-2:]).all())
    key = "".join(f"\n{mark}: {SAYS[mark]}" for mark in sorted({*nothing.values()}))
    axes.set_xlabel(
        "evaluated task (metric in %" + (f",\n± SD over {', '.join(over)})" if over else ")") + key
    )
    axes.set_ylabel(f"heads pruned ({100 * fraction:.3g} %)")
    if bar := colour_bar(figure, image, "relative performance P", ax=axes, aspect=14, pad=0.02):
        bar.ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        bar.ax.yaxis.set_major_formatter(lambda lost, _: f"{1 - lost:.2f}")
        bar.ax.invert_yaxis()
    return figure


def _cells(
    pruning: Mapping[int, pd.DataFrame],
    rows: Sequence[str],
    tasks: Sequence[str],
    fraction: float,
    metrics: Mapping[str, str],
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the main metric, both (rows, tasks); nan if undefined."""
    frame = stacked(pruning)
    frame = frame[frame["metric"] == frame["task"].map(metrics)]
    base = frame[frame["pruned_for"] == BASE]
    pruned = at_fraction(frame[frame["order"] != "bottom"], fraction)
    cells = pd.concat([base, pruned]).groupby(["pruned_for", "task", "seed"])["value"]
    by_seed = cells.agg(["mean", "var"]).groupby(["pruned_for", "task"])
    across, within = by_seed["mean"].std(), by_seed["var"].mean() ** 0.5
    spread = across.where(~across.index.isin(list(RANDOM), level="pruned_for"), within)

    def table(values: pd.Series) -> np.ndarray:
        return values.unstack("task").reindex(index=list(rows), columns=list(tasks)).to_numpy(dtype=float)

    return table(by_seed["mean"].mean()), table(spread)


@styled
def draw_dissociation(
    combined: pd.DataFrame,
    dissociation: pd.DataFrame,
    mixtures: Mapping[str, Sequence[str]],
    fraction: float,
    distinct: float,
) -> Figure:
    """Draw bars of dissociation with intervals, dots for seeds; a block per mixture and a panel per model.

    A line shows the mean (fraction) that counts as `distinct`.
    """
    figure, panels, rows = mixture_panels(combined, mixtures, "dissociation D (%)")
    methods = [method for method in BARS if method in set(combined["method"])]
    seeds = _with_mean(at_fraction(dissociation, fraction))
    for model, axes in panels.items():
        axes.axvline(0, color="black", linewidth=0.6)
        line = f"distinct: {100 * distinct:.3g} %"
        axes.axvline(100 * distinct, color="black", linestyle=(0, (4, 2)), label=line)
        for lane, method in enumerate(methods):
            bars, dots = (t[(t["model"] == model) & (t["method"] == method)] for t in (combined, seeds))
            ys = heights(rows, bars, lane, len(methods))
            axes.barh(ys, 100 * bars["dissociation"], 0.8 / len(methods), label=method, **BARS[method])
            draw_intervals(axes, ys, bars, interval_label(combined))
            axes.plot(100 * dots["dissociation"], heights(rows, dots, lane, len(methods)), **DOT)
            mark_chance(axes, bars, ys)
    legend(figure)
    return figure


def _with_mean(dissociation: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of single seeds, with the mean over the tasks of each run."""
    run = ["model", "mixture", "method", "seed"]
    means = dissociation.groupby(run, as_index=False)["dissociation"].mean(skipna=False).assign(task=MEAN)
    table: pd.DataFrame = pd.concat([dissociation[[*run, "task", "dissociation"]], means])
    return table


#: legend entries of plain training and IAT, and styles of their bars
BEFORE_AND_AFTER: list[tuple[str, dict[str, Any]]] = [
    ("before IAT (MTL)", {"facecolor": "#e8eef4", "edgecolor": "black"}),
    ("after IAT", {"facecolor": "#4292c6", "edgecolor": "black"}),
]
BAR_HEIGHT = 0.4  # of a bar, in rows


@styled
def draw_specialization(
    specialization: pd.DataFrame,
    combined: pd.DataFrame,
    dissociation: pd.DataFrame,
    tasks: Sequence[str],
    fraction: float,
) -> Figure:
    """Draw dissociation before and after IAT on the left, differences on the right, the mean on top.

    Differences have paired intervals, bars have their own, and dots are single seeds.
    """
    rows = [MEAN, *tasks]
    label_width = max(0.5, 0.058 * max(map(len, rows)))
    figure = Figure(figsize=(label_width + 4.6, 0.95 + 0.27 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.35, 1])
    for axes, label in ((left, "dissociation D (%)"), (right, "after minus before (points)")):
        axes.axvline(0, color="black", linewidth=0.6)
        axes.axhline(0.5, color="0.7", linewidth=0.5)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(label)
    seeds = at_fraction(dissociation, fraction).pivot(
        index=["method", "seed"], columns="task", values="dissociation"
    )
    seeds[MEAN] = seeds[list(tasks)].mean(axis=1, skipna=False)
    (before,) = {*combined["method"]} - {"iat"}
    for lane, (method, (label, look)) in enumerate(zip((before, "iat"), BEFORE_AND_AFTER, strict=True)):
        bars = combined[combined["method"] == method].set_index("task").loc[rows]
        ys = np.arange(len(rows)) + BAR_HEIGHT * (lane - 0.5)
        left.barh(ys, 100 * bars["dissociation"], BAR_HEIGHT, label=label, **look)
        draw_intervals(left, ys, bars)
        for _, values in seeds.loc[method].iterrows():
            left.plot(100 * values[rows], ys, **DOT)
    differences = specialization.set_index("task").loc[rows]
    _draw_differences(right, differences, seeds, rows)
    mark_chance(right, differences, np.arange(len(differences)))
    left.set_yticks(range(len(rows)), rows)
    left.set_ylim(len(rows) - 0.4, -0.6)
    left.get_yticklabels()[0].set_fontweight("bold")
    legend(figure)
    return figure


def _draw_differences(
    axes: Axes, differences: pd.DataFrame, seeds: pd.DataFrame, rows: Sequence[str]
) -> None:
    """Draw the means and intervals of the differences, and the differences of single seeds."""
    ys = np.arange(len(rows))
    draw_intervals(axes, ys, differences)
    mean: dict[str, Any] = {"marker": "D", "linestyle": "none", "color": "black", "zorder": 4}
    axes.plot(100 * differences["difference"], ys, label="mean over seeds", **mean)
    method, values = seeds.index.get_level_values("method"), seeds[list(rows)].to_numpy()
    for change in values[method == "iat"] - values[method != "iat"]:
        axes.plot(100 * change, ys + 0.24, **DOT)
    axes.margins(x=0.08)


def plot_dissociation(found: pd.DataFrame, axes: Axes | None = None) -> Axes:
    """Draw D of one model, from `headspec.dissociate`, with its intervals, and return its axes.

    Sizes are evenly spaced; if there are several, the last values are those over all sizes. The mean is
    black; where examples are not known, its thick interval is that of lists that fail the same examples.

    Parameters
    ----------
    found : from `dissociate`, with rows of one model
    axes : matplotlib axes, optional; by default those of a new figure

    Raises
    ------
    ValueError
        There are several models.

    Examples
    --------
    >>> headspec.plot_dissociation(headspec.dissociate(matrix))
    """
    if "model" in found and found["model"].nunique() > 1:
        names = listing(found["model"].unique())
        raise ValueError(f"found: got models {names}, expected the rows of one")
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots()
    size = next((name for name in ("heads", "fraction") if name in found), None)
    sizes = found[size] if size else pd.Series(0.0, found.index)
    tasks = [task for task in found["task"].unique() if task != MEAN]
    lanes = [*tasks, MEAN]
    for lane, task in enumerate(lanes):
        rows = found["task"] == task
        places = pd.factorize(sizes[rows], use_na_sentinel=False)[0]
        x = places + 0.7 * ((lane + 0.5) / len(lanes) - 0.5)
        look = {"color": "black", "marker": "D"} if task == MEAN else task_style(tasks, task)
        values = found[rows]
        axes.plot(x, 100 * values["dissociation"], linestyle="none", markersize=4, label=task, **look)
        axes.vlines(x, 100 * values["ci_low"], 100 * values["ci_high"], color=look["color"], linewidth=1)
        if task == MEAN and "same_low" in values:
            ends = 100 * values["same_low"], 100 * values["same_high"]
            axes.vlines(x, *ends, color=look["color"], linewidth=3, alpha=0.5)
    axes.axhline(0, color="black", linewidth=0.6)
    number_of = "{:.0%}" if size == "fraction" else "{:g}"
    ticks = ["all" if np.isnan(level) else number_of.format(level) for level in sizes.unique()]
    axes.set_xticks(range(len(ticks)), ticks if size else [""])
    axes.set_xlabel("heads pruned")
    axes.set_ylabel("dissociation D (%)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return axes
