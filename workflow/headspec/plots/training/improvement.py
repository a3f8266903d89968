"""Every method of training compared with plain multi-task training (MTL), task by task."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.config.runs import Variant
from headspec.config.values import MEAN
from headspec.plots.drawing.style import PAGE, draw_intervals, legend, number, styled
from headspec.statistics.training.improvement import by_seed, clear
from headspec.tasks.metrics import metric

#: panels per row, at most
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
#: of a difference between two methods that learnt nothing
CROSS: dict[str, Any] = POINT | {
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
#: least extent of a scale to either side of 0, in points
NARROWEST = 0.1
#: distance of single seeds below the mean, in rows
BELOW = 0.24


def title(row: pd.Series, labels: Mapping[str, str], sampling: str) -> str:
    """Title of a method's panel, with the sampling unless the study's MTL has the same."""
    if pd.isna(row["heads"]):
        return "single-task" if row["method"] == "single" else f"MTL, {row['sampling']} sampling"
    name = labels[row["heads"]]
    return name if row["sampling"] == sampling else f"{name}, {row['sampling']}\nvs MTL, {row['sampling']}"


def plain_sampling(improvement: pd.DataFrame) -> str:
    """Sampling of tasks by the study's plain multi-task training."""
    return str(improvement.loc[improvement["method"] == "tuned", "sampling"].iloc[0])


def shown(improvement: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """Rows of the mean for the methods with a panel, in panel order; other points of a sweep have none."""
    means = improvement[(improvement["task"] == MEAN) & improvement["against"].notna()]
    main, sampling = means[means["method"] == "iat"].iloc[0], plain_sampling(improvement)
    elsewhere = (means["alpha"].notna() & (means["alpha"] != main["alpha"])) | (
        means["delta"].notna() & (means["delta"] != main["delta"])
    )
    means = means[~elsewhere]
    heads, rows = list(labels), means.to_dict("index")

    def place(index: Any) -> tuple:
        row = rows[index]
        rank = len(heads) if pd.isna(row["heads"]) else heads.index(row["heads"])
        return rank == len(heads), row["method"] == "single", row["sampling"] != sampling, rank

    return means.loc[sorted(rows, key=place)]


@styled
def draw(
    improvement: pd.DataFrame,
    scores: pd.DataFrame,
    mixture: str,
    tasks: Sequence[str],
    metrics: Mapping[str, str],
    variants: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
) -> Figure:
    """A panel per method, a row per task, the mean over tasks on top.

    Methods that continue from MTL share one scale; single-task training and other MTL share another.
    """
    seeds = by_seed(scores, {mixture: list(tasks)}, [Variant(**fields) for fields in variants])
    improvement = improvement[improvement["mixture"] == mixture]
    methods, sampling = shown(improvement, labels), plain_sampling(improvement)
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
        axes.set_title(title(method, labels, sampling))
        axes.set_xlabel("difference (points)")
    for axes in firsts.values():  # if nothing differs, rounding errors must not fill the scale
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


def draw_points(axes: Axes, results: pd.DataFrame, ys: Sequence[int]) -> None:
    """Draw differences at `ys`, filled where they are clear, crossed where neither method learnt."""
    fills = ["black" if filled else "white" for filled in clear(results)]
    for y, difference, fill in zip(ys, 100 * results["difference"], fills, strict=True):
        axes.plot(difference, y, markerfacecolor=fill, **POINT)
    nothing = results["unpruned_at_chance"].eq(True).to_numpy()
    if nothing.any():
        axes.plot(100 * results["difference"][nothing], np.array(ys)[nothing], **CROSS)


def _draw_rows(axes: Axes, results: pd.DataFrame, dots: pd.DataFrame, tasks: list[str]) -> None:
    """Draw the mean, interval and single seeds of one method in the row of each of `tasks`."""
    axes.axvline(0, color="black", linewidth=0.6)
    axes.axhline(0.55, color="0.7", linewidth=0.5)
    ys = range(len(tasks))
    draw_intervals(axes, ys, results, linewidth=1.1)
    draw_points(axes, results, ys)
    places = dots["task"].map({task: y + BELOW for y, task in enumerate(tasks)})
    axes.plot(100 * dots["difference"], places, **DOT)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.margins(x=0.08)
