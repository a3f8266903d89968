"""Similarity of tasks to one model, by every measure: matrices and the trees they imply."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram, linkage

from headspec.plots.drawing.kinds import MISSING
from headspec.plots.drawing.style import SHADES, number, styled

Floats = NDArray[np.float64]

#: matrices per row, at most
COLUMNS = 3
#: side of a cell in inches, and width of a tree relative to that of its matrix
CELL, TREE = 0.27, 0.3


@styled
def draw(similarity: pd.DataFrame, tasks: Sequence[str], labels: Mapping[str, str]) -> Figure:
    """A matrix per measure, its tasks ordered by a tree of average linkage on 1 - similarity.

    Means over subjects are shown; a task with itself is grey.
    """
    means = similarity[similarity["subject"].isna()]
    measures = [measure for measure in labels if measure in set(means["measure"])]
    columns = min(COLUMNS, len(measures))
    lines = math.ceil(len(measures) / columns)
    side = max(1.0, CELL * len(tasks))
    label_width = 0.25 + 0.055 * max(map(len, tasks))
    size = (columns * (label_width + side * (1 + TREE) + 0.1), lines * (side + 0.5) + 0.35)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, 2 * columns, squeeze=False, width_ratios=[1, TREE] * columns)
    panels = grid.reshape(-1, 2)
    for (axes, tree_axes), measure in zip(panels, measures, strict=False):
        matrix = _matrix(means[means["measure"] == measure], tasks)
        order = _draw_tree(tree_axes, matrix)
        axes.set_title(labels[measure])
        _draw_matrix(axes, matrix[np.ix_(order, order)])
        axes.set_xticks(range(len(tasks)), [str(index + 1) for index in order])
        axes.set_yticks(range(len(tasks)), [f"{tasks[index]}  {index + 1}" for index in order])
    for axes in panels[len(measures) :].ravel():
        axes.remove()
    shades = ScalarMappable(Normalize(0, 1), SHADES)
    shown = list(panels[: len(measures)].ravel())
    bar = figure.colorbar(shades, ax=shown, location="bottom", aspect=30, shrink=0.5, pad=0.02, ticks=[0, 1])
    bar.ax.set_xticklabels(["lowest", "highest"])
    bar.set_label("similarity within a matrix")
    return figure


def _matrix(measured: pd.DataFrame, tasks: Sequence[str]) -> Floats:
    """Similarity (k, k) by one measure; nan on the diagonal and where undefined."""
    place = {task: index for index, task in enumerate(tasks)}
    first, second = measured["task_a"].map(place), measured["task_b"].map(place)
    matrix = np.full((len(tasks), len(tasks)), np.nan)
    matrix[first, second] = matrix[second, first] = measured["similarity"]
    return matrix


def _draw_tree(axes: Axes, matrix: Floats) -> list[int]:
    """Draw the tree that joins the rows of `matrix`, unless a value is missing, and return their order."""
    axes.axis("off")
    k = len(matrix)
    pairs = matrix[np.triu_indices(k, 1)]
    if np.isnan(pairs).any():
        return list(range(k))
    joined = linkage(np.clip(1 - pairs, 0, None), "average", optimal_ordering=True)
    tree = dendrogram(joined, no_plot=True)
    for heights, leaves in zip(tree["dcoord"], tree["icoord"], strict=True):  # leaves at 5, 15, 25, ...
        axes.plot(heights, np.array(leaves) / 10 - 0.5, color="black", linewidth=0.8, clip_on=False)
    axes.set_xlim(0, max(joined[-1, 2], 1e-9))
    axes.set_ylim(k - 0.5, -0.5)
    return list(tree["leaves"])


def _draw_matrix(axes: Axes, matrix: Floats) -> None:
    """Draw values and shades, which span the range of this matrix."""
    shown = matrix[~np.isnan(matrix)]
    low, high = (shown.min(), shown.max()) if len(shown) else (0, 1)
    axes.imshow(matrix, cmap=SHADES.with_extremes(bad=MISSING), vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(matrix):
        if row != column:
            text = "–" if np.isnan(value) else number(value, 2 if high - low >= 0.05 else 3)
            axes.text(column, row, text, ha="center", va="center", fontsize=5.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
