"""Dissociation against similarity for every pair of tasks, by one measure."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from headspec.plots.drawing.labels import name_points
from headspec.plots.drawing.points import correlation_text, draw_points
from headspec.plots.drawing.style import legend, styled
from headspec.statistics.similarity.paired import paired

#: panels per row, at most
COLUMNS = 3
INTERVAL = {"color": "0.6", "linewidth": 0.7, "zorder": 0.9}


@styled
def draw(
    similarity: pd.DataFrame,
    combined: pd.DataFrame,
    correlation: pd.DataFrame,
    measure: str,
    paradigms: Mapping[str, str],
    method: str,
    labels: Mapping[str, str],
) -> Figure:
    """A panel per model: a numbered point per pair of tasks, intervals, and the least-squares line."""
    pairs = paired(similarity, combined, paradigms, method)
    pairs = pairs[pairs["measure"] == measure]
    results = correlation[correlation["measure"] == measure].set_index("model")
    models, mixtures = list(pairs["model"].unique()), list(pairs["mixture"].unique())
    columns = min(COLUMNS, len(models))
    lines = math.ceil(len(models) / columns)
    width, height = (3.4, 2.7) if len(models) == 1 else (2.25, 2.2)
    key = [f"{n:\N{FIGURE SPACE}>2}  {mixture.replace('+', ' + ')}" for n, mixture in enumerate(mixtures, 1)]
    size = (columns * width + 0.4 + 0.055 * max(map(len, key)), max(lines * height, 0.14 * len(key)) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for axes, model in zip(panels, models, strict=False):
        rows, result = pairs[pairs["model"] == model], results.loc[model]
        draw_points(axes, rows, result)
        low, high = 100 * rows["ci_low"], 100 * rows["ci_high"]
        axes.vlines(rows["similarity"], low, high, label="interval", **INTERVAL)
        low, high = rows["similarity_low"], rows["similarity_high"]
        axes.hlines(100 * rows["dissociation"], low, high, **INTERVAL)
        axes.margins(0.09)
        title = f"{model}, {result['n_pairs']} pairs\n{correlation_text(result, 'Mantel p')}"
        if pd.notna(result["partial_r"]):
            title += f"\npartial {correlation_text(result, 'p', 'partial_r', 'p_partial')}"
        axes.set_title(title)
        axes.set_xlabel(f"similarity: {labels[measure]}")
    for axes in panels[::columns]:
        axes.set_ylabel("mean dissociation D (%)")
    for axes in panels[len(models) :]:
        axes.remove()
    empty = [Line2D([], [], linestyle="none") for _ in key]
    figure.legend(empty, key, loc="outside right upper", handlelength=0, handletextpad=0, labelspacing=0.3)
    legend(figure)
    figure.draw_without_rendering()  # fixes the size of the panels, on which the places of names depend
    for axes, model in zip(panels, models, strict=False):
        rows = pairs[pairs["model"] == model].reset_index(drop=True)
        shown = rows.dropna(subset=["similarity", "dissociation"])
        names = [str(number + 1) for number in shown.index]
        points = np.stack([shown["similarity"], 100 * shown["dissociation"]], axis=-1)
        name_points(axes, points, names, _lines(shown, results.loc[model]))
    return figure


def _lines(pairs: pd.DataFrame, result: pd.Series) -> NDArray[np.float64]:
    """Corners (n, 4) of boxes along all lines of a panel: intervals and the least-squares line."""
    x, y = pairs["similarity"], 100 * pairs["dissociation"]
    upright = np.stack([x, 100 * pairs["ci_low"], x, 100 * pairs["ci_high"]], axis=-1)
    level = np.stack([pairs["similarity_low"], y, pairs["similarity_high"], y], axis=-1)
    along = np.linspace(x.min(), x.max(), 31)
    fit = np.stack([along, 100 * (result["intercept"] + result["slope"] * along)], axis=-1)
    boxes = np.concatenate([upright, level, np.hstack([fit[:-1], fit[1:]])]).astype(float)
    return boxes[~np.isnan(boxes).any(axis=1)]
