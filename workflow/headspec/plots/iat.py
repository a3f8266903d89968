"""Improvement by IAT over plain multi-task training (MTL): by task, by variant, and by alpha and delta."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from headspec.config.runs import Variant
from headspec.config.values import MEAN
from headspec.numbers import number
from headspec.plots.drawing.style import (
    PAGE,
    SHADES,
    colour_bar,
    draw_intervals,
    interval_label,
    legend,
    styled,
)
from headspec.statistics.improvement import by_seed
from headspec.statistics.intervals import clear
from headspec.tasks.metrics import metric

#: maximum number of panels per row
COLUMNS = 4
POINT: dict[str, Any] = {
    "label": "mean over seeds; filled: interval without 0, corrected p < 0.05 over the same",
    "linestyle": "none",
    "color": "black",
    "marker": "D",
    "markersize": 3.2,
    "markeredgewidth": 0.7,
    "zorder": 4,
}
#: a difference between two methods that learnt nothing
UNLEARNT_CROSS: dict[str, Any] = POINT | {
    "label": "both at chance: no finding",
    "marker": "x",
    "markersize": 5,
    "zorder": 5,
}
DOT: dict[str, Any] = {
    "label": "one seed",
    "linestyle": "none",
    "marker": "o",
    "markersize": 2,
    "color": "#4292c6",
    "zorder": 3,
}
#: minimum extent of a scale to either side of 0, in points
NARROWEST = 0.1
#: offset of single seeds below the mean, in rows
BELOW = 0.24


def variant_title(row: pd.Series, labels: Mapping[str, str], sampling: str) -> str:
    """Return the title of a method's panel, with its sampling if it differs from that of the study's MTL."""
    if pd.isna(row["heads"]):
        return "single-task" if row["method"] == "single" else f"MTL, {row['sampling']} sampling"
    name = labels[row["heads"]]
    return name if row["sampling"] == sampling else f"{name}, {row['sampling']}\nvs MTL, {row['sampling']}"


def plain_sampling(improvement: pd.DataFrame) -> str:
    """Return the sampling of tasks by the study's plain multi-task training."""
    return str(improvement.loc[improvement["against"].isna(), "sampling"].iloc[0])


def with_panel(improvement: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the mean of methods with a panel, in order; other points of a sweep have none."""
    means = improvement[(improvement["task"] == MEAN) & improvement["against"].notna()]
    main, sampling = means[means["method"] == "iat"].iloc[0], plain_sampling(improvement)
    elsewhere = (means["alpha"].notna() & (means["alpha"] != main["alpha"])) | (
        means["delta"].notna() & (means["delta"] != main["delta"])
    )
    means = means[~elsewhere]
    heads, rows = list(labels), means.to_dict("index")

    def place(index: Any) -> tuple[Any, ...]:
        row = rows[index]
        rank = len(heads) if pd.isna(row["heads"]) else heads.index(row["heads"])
        return rank == len(heads), row["method"] == "single", row["sampling"] != sampling, rank

    ordered: pd.DataFrame = means.loc[sorted(rows, key=place)]
    return ordered


@styled
def draw_improvement(
    improvement: pd.DataFrame,
    scores: pd.DataFrame,
    mixture: str,
    tasks: Sequence[str],
    metrics: Mapping[str, str],
    variants: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
) -> Figure:
    """Draw a panel per method, a row per task, with the mean over tasks on top.

    Methods that continue from MTL share one scale; single-task training and other MTL share another.
    """
    seeds = by_seed(scores, {mixture: list(tasks)}, [Variant(**fields) for fields in variants])
    improvement = improvement[improvement["mixture"] == mixture]
    methods, sampling = with_panel(improvement, labels), plain_sampling(improvement)
    shown_metrics = {**metrics, MEAN: MEAN}
    improvement, seeds = (t[t["metric"] == t["task"].map(shown_metrics)] for t in (improvement, seeds))
    tasks = [MEAN, *(task for task in metrics if task in set(improvement["task"]))]
    base = improvement[improvement["against"].isna()].set_index("task")["value"]
    ticks = [f"{MEAN} {number(100 * base[MEAN], 1)}"] + [
        f"{task}, {metric(metrics[task]).name} {number(100 * base[task], 1)}" for task in tasks[1:]
    ]
    columns = min(COLUMNS, len(methods))
    lines = math.ceil(len(methods) / columns)
    label_width = 0.1 + 0.05 * max(map(len, ticks))
    size = (max(label_width + 1.45 * columns, min(PAGE, 4.2)), lines * (0.62 + 0.19 * len(tasks)) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    firsts: dict[bool, Axes] = {}
    for axes, (_, method) in zip(panels, methods.iterrows(), strict=False):
        axes.sharex(firsts.setdefault(pd.isna(method["heads"]), axes))
        rows = improvement[improvement["method"] == method["method"]].set_index("task").loc[tasks]
        dots = seeds[seeds["method"] == method["method"]]
        _draw_rows(axes, rows, dots, tasks)
        axes.set_title(variant_title(method, labels, sampling))
        axes.set_xlabel("difference (points)")
    for axes in firsts.values():  # if nothing differs, rounding errors must not span the scale
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -NARROWEST), max(high, NARROWEST))
    panels[0].set_yticks(range(len(tasks)), ticks)
    panels[0].set_ylim(len(tasks) - 0.4, -0.6)
    for axes in panels[::columns]:
        axes.get_yticklabels()[0].set_fontweight("bold")
    for axes in panels[len(methods) :]:
        axes.remove()
    legend(figure)
    return figure


def draw_improvement_points(axes: Axes, results: pd.DataFrame, ys: Sequence[int]) -> None:
    """Draw differences at `ys`, filled where significant, crossed where neither method learnt."""
    fills = ["black" if filled else "white" for filled in clear(results)]
    for y, difference, fill in zip(ys, 100 * results["difference"], fills, strict=True):
        axes.plot(difference, y, markerfacecolor=fill, **POINT)
    nothing = results["unpruned_at_chance"].eq(True).to_numpy()
    if nothing.any():
        axes.plot(100 * results["difference"][nothing], np.array(ys)[nothing], **UNLEARNT_CROSS)


def _draw_rows(axes: Axes, results: pd.DataFrame, dots: pd.DataFrame, tasks: list[str]) -> None:
    """Draw the mean, interval and single seeds of one method in the rows of `tasks`."""
    axes.axvline(0, color="black", linewidth=0.6)
    axes.axhline(0.55, color="0.7", linewidth=0.5)
    ys = range(len(tasks))
    draw_intervals(axes, ys, results, linewidth=1.1)
    draw_improvement_points(axes, results, ys)
    places = dots["task"].map({task: y + BELOW for y, task in enumerate(tasks)})
    axes.plot(100 * dots["difference"], places, **DOT)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.margins(x=0.08)


def branched_variants(improvement: pd.DataFrame) -> pd.DataFrame:
    """Return the means of all variants that continue the study's plain multi-task training."""
    branched = (improvement["task"] == MEAN) & improvement["heads"].notna()
    return improvement[branched & (improvement["sampling"] == plain_sampling(improvement))]


@styled
def draw_verdict(improvement: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """Draw a panel per delta (rows) and alpha (columns), a row per variant that the study has there.

    Variants that do not depend on alpha appear in all panels of their delta.
    """
    rows = branched_variants(improvement)
    alphas, deltas = (np.sort(rows[name].dropna().unique()) for name in ("alpha", "delta"))
    swept = [set(rows.loc[rows["delta"] == delta, "heads"]) for delta in deltas]
    heads = [[name for name in labels if name in names] for names in swept]
    widest = max(len(labels[name]) for names in heads for name in names)
    width = 0.2 + 0.062 * widest + 1.45 * len(alphas)
    heights = [0.45 + 0.17 * len(names) for names in heads]
    figure = Figure(figsize=(max(width, min(PAGE, 4.2)), sum(heights) + 0.5), layout="constrained")
    grid = figure.subplots(
        len(deltas), len(alphas), sharex=True, sharey="row", squeeze=False, height_ratios=heights
    )
    for line, delta, names in zip(grid, deltas, heads, strict=True):
        for axes, alpha in zip(line, alphas, strict=True):
            here = rows[(rows["delta"] == delta) & (rows["alpha"].isna() | (rows["alpha"] == alpha))]
            _draw_panel(axes, here, names, interval_label(rows))
            axes.set_title(f"delta {100 * delta:.3g} %, alpha {100 * alpha:.3g} %")
        line[0].set_yticks(range(len(names)), [labels[name] for name in names])
        line[0].set_ylim(len(names) - 0.4, -0.6)
    low, high = grid[0, 0].get_xlim()
    grid[0, 0].set_xlim(min(low, -NARROWEST), max(high, NARROWEST))
    for axes in grid[-1]:
        axes.set_xlabel("difference (points)")
    legend(figure)
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame, heads: list[str], over: str) -> None:
    axes.axvline(0, color="black", linewidth=0.6)
    ys = [heads.index(name) for name in rows["heads"]]
    draw_intervals(axes, ys, rows, over, linewidth=1.1)
    draw_improvement_points(axes, rows, ys)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.margins(x=0.08)


@styled
def draw_alpha_delta(improvement: pd.DataFrame) -> Figure:
    """Draw a cell per alpha (columns) and delta (rows): the mean difference from MTL above its interval.

    Only IAT with the sampling of the study's MTL is shown; the cell of the method `iat` is outlined.
    """
    swept = (improvement["heads"] == "top") & (improvement["sampling"] == plain_sampling(improvement))
    means = improvement[swept & (improvement["task"] == MEAN)]
    alphas, deltas = (np.sort(means[name].unique()) for name in ("alpha", "delta"))
    values = np.full((len(deltas), len(alphas)), np.nan)
    size = (0.85 * len(alphas) + 1.1, 0.42 * len(deltas) + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for _, row in means.iterrows():
        y, x = np.searchsorted(deltas, row["delta"]), np.searchsorted(alphas, row["alpha"])
        values[y, x] = 100 * row["difference"]
        low, high = (number(100 * row[name]) for name in ("ci_low", "ci_high"))
        sign = "+" if round(values[y, x], 2) > 0 else ""
        axes.text(x, y + 0.14, sign + number(values[y, x]), ha="center", va="center")
        axes.text(x, y - 0.22, f"[{low}, {high}]", ha="center", va="center", fontsize=5.5)
        if row["method"] == "iat":
            outline = Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, linewidth=1.6, clip_on=False, zorder=3)
            axes.add_patch(outline)
    low, high = (
        min(0, np.nanmin(values)),
        max(0, np.nanmax(values)),
    )  # include 0, so that noise far from it stays pale
    image = axes.imshow(values, cmap=SHADES, aspect="auto", vmin=low, vmax=max(high, low + 0.01))
    axes.set_xticks(range(len(alphas)), [f"{100 * alpha:.3g}" for alpha in alphas])
    axes.set_yticks(range(len(deltas)), [f"{100 * delta:.3g}" for delta in deltas])
    axes.set_ylim(-0.5, len(deltas) - 0.5)  # delta increases upwards
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("alpha (% of heads)")
    axes.set_ylabel("delta (%)")
    colour_bar(figure, image, "points", ax=axes, aspect=14, pad=0.02)
    return figure
