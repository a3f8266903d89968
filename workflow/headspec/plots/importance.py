"""Head importance: heat maps with pruned heads outlined, and its reproducibility."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headspec.head_arrays import Layers, existing
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.plots.drawing.heat_maps import divide, draw_heads
from headspec.plots.drawing.methods import FILLS
from headspec.plots.drawing.style import PAGE, heights, key, legend, mixture_panels, styled

#: maximum number of columns for seeds; with more seeds, a column with the mean over all comes first
SEEDS_SHOWN = 3
#: height of the figure in inches above which heat maps are flattened
TALLEST = 8.5


@styled
def draw_importance(
    importance: Mapping[int, pd.DataFrame],
    tasks: Sequence[str],
    fraction: float,
    attention: Layers | None = None,
) -> Figure:
    """Draw heat maps of importance, a row per task and a column per seed; the top `fraction` is outlined.

    With more than `SEEDS_SHOWN` seeds, the first column is the mean over all, and the first seeds follow.
    Each map is divided by its maximum, because the scale of gradients differs between tasks.
    """
    heat_maps = {task: _columns(importance, task) for task in tasks}
    columns = len(heat_maps[tasks[0]])
    layers, heads = next(iter(heat_maps[tasks[0]].values())).shape
    width = min(2.2, (PAGE - 1.0) / columns)
    height = min(width * layers / heads, TALLEST / len(tasks) - 0.3)
    size = (columns * (width + 0.1) + 0.9, len(tasks) * (height + 0.3) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(tasks), columns, sharex=True, sharey=True, squeeze=False)
    for row, task in zip(grid, tasks, strict=True):
        for axes, (column, heat) in zip(row, heat_maps[task].items(), strict=True):
            pruned = top_heads(heat, prune_count(fraction, int(existing(heat).sum())))
            line_width = min(0.9, 6 * width / heads)
            image = draw_heads(axes, heat / np.nanmax(heat), pruned, attention, line_width=line_width)
            if 0.058 * (len(task) + len(column)) > width:  # inches: the two do not fit on one line
                axes.set_title(f"{task}\n{column}", loc="left", fontsize="small")
            else:
                axes.set_title(task, loc="left")
                axes.set_title(column, loc="right", fontsize="small", color="0.3")
            divide(axes, attention, named=axes is row[-1])
        row[0].set_ylabel("layer")
    for axes in grid[-1]:
        axes.set_xlabel("head")
    bar = figure.colorbar(image, ax=grid, shrink=min(1, 1.6 / (len(tasks) * height)), aspect=12, pad=0.02)
    bar.set_label("importance / maximum")
    return figure


def _columns(importance: Mapping[int, pd.DataFrame], task: str) -> dict[str, NDArray[np.float64]]:
    """Return the heat maps (layers, heads) in the row of `task`, by the title of their column."""
    by_seed = {f"seed {seed}": importance_map(frame, task) for seed, frame in importance.items()}
    if len(by_seed) <= SEEDS_SHOWN:
        return by_seed
    mean = np.mean(list(by_seed.values()), axis=0)
    return {f"mean of {len(by_seed)}": mean} | dict(list(by_seed.items())[:SEEDS_SHOWN])


#: kind of agreement: (legend entry, marker)
KINDS = {"split_half": ("split half", "o"), "seeds": ("two seeds", "D"), "tasks": ("two tasks", "^")}


@styled
def draw_reliability(reliability: pd.DataFrame, mixtures: Mapping[str, Sequence[str]]) -> Figure:
    """Draw rank correlations of importance maps: a row per task of every mixture, a panel per model.

    A point is a run (split halves), a pair of seeds, or another task of a run.
    """
    reliability = reliability[reliability["kind"].isin(KINDS)]
    figure, panels, rows = mixture_panels(reliability, mixtures, "rank correlation of importance (Spearman)")
    methods = [method for method in FILLS if method in set(reliability["method"])]
    black: dict[str, Any] = {"color": "black", "linestyle": "none", "markeredgewidth": 0.5}
    for name, group in reliability.groupby(["model", "kind", "method"]):
        model, kind, method = map(str, name)
        lane = heights(rows, group, methods.index(method), len(methods))
        _, marker = KINDS[kind]
        panels[model].plot(group["spearman"], lane, marker=marker, markerfacecolor=FILLS[method], **black)
    first, *_ = panels.values()
    for label, marker in (KINDS[kind] for kind in KINDS if kind in set(reliability["kind"])):
        key(first, label, marker=marker, markerfacecolor="none", **black)
    for method in methods:
        key(first, method, marker="s", markerfacecolor=FILLS[method], **black)
    for axes in panels.values():
        axes.set_xlim(min(0, reliability["spearman"].min() - 0.05), 1.05)
    legend(figure)
    return figure
