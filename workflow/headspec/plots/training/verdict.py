"""Effect of every variant of IAT on the mean over tasks, corrected for their number."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.config.values import MEAN
from headspec.plots.drawing.style import PAGE, draw_intervals, interval_label, legend, styled
from headspec.plots.training.improvement import NARROWEST, draw_points, plain_sampling


def variants(improvement: pd.DataFrame) -> pd.DataFrame:
    """Means of all variants that continue the study's plain multi-task training."""
    branched = (improvement["task"] == MEAN) & improvement["heads"].notna()
    return improvement[branched & (improvement["sampling"] == plain_sampling(improvement))]


@styled
def draw(improvement: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """A panel per delta (rows) and alpha (columns), a row per variant that the study has there.

    Variants that do not depend on alpha are in all panels of their delta.
    """
    rows = variants(improvement)
    alphas, deltas = (np.sort(rows[name].dropna().unique()) for name in ("alpha", "delta"))
    found = [set(rows.loc[rows["delta"] == delta, "heads"]) for delta in deltas]
    heads = [[name for name in labels if name in names] for names in found]
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
    draw_points(axes, rows, ys)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.margins(x=0.08)
