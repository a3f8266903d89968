"""Similarity of tasks by every measure, its correlation with dissociation, and prediction of voxels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram, linkage

from headspec.numbers import number
from headspec.plots.drawing.heat_maps import MISSING
from headspec.plots.drawing.marks import DOT, correlation_text, draw_points, name_points
from headspec.plots.drawing.style import PAGE, SHADES, legend, stacked, styled
from headspec.statistics.correlation import paired
from headspec.statistics.resampling import SIGNIFICANCE

Floats = NDArray[np.float64]

#: maximum number of matrices per row
MATRIX_COLUMNS = 3
#: side of a cell in inches, and width of a tree relative to that of its matrix
CELL, TREE = 0.27, 0.3


@styled
def draw_similarity(similarity: pd.DataFrame, tasks: Sequence[str], labels: Mapping[str, str]) -> Figure:
    """Draw a matrix per measure, its tasks ordered by a tree of average linkage on 1 - similarity.

    Means over subjects are shown; the diagonal is grey. Where a value is missing, there is no tree.
    """
    means = similarity[similarity["subject"].isna()]
    measures = [measure for measure in labels if measure in set(means["measure"])]
    columns = min(MATRIX_COLUMNS, len(measures))
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
    """Return similarity (k, k) by one measure; nan on the diagonal and where undefined."""
    place = {task: index for index, task in enumerate(tasks)}
    first, second = measured["task_a"].map(place), measured["task_b"].map(place)
    matrix = np.full((len(tasks), len(tasks)), np.nan)
    matrix[first, second] = matrix[second, first] = measured["similarity"]
    return matrix


def _draw_tree(axes: Axes, matrix: Floats) -> list[int]:
    """Draw the tree that joins the rows of `matrix`, unless a value is missing; return their order."""
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
    """Draw values and shades; these span the range of this matrix."""
    shown = matrix[~np.isnan(matrix)]
    low, high = (shown.min(), shown.max()) if len(shown) else (0, 1)
    axes.imshow(matrix, cmap=SHADES.with_extremes(bad=MISSING), vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(matrix):
        if row != column:
            text = "–" if np.isnan(value) else number(value, 2 if high - low >= 0.05 else 3)
            axes.text(column, row, text, ha="center", va="center", fontsize=5.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


#: maximum number of panels per row
SMALL_COLUMNS = 6
#: candidate steps between ticks
STEPS = [1, 2, 2.5, 5, 10]


def by_strength(correlation: pd.DataFrame) -> list[str]:
    """Return measures by mean |Pearson r| over models, strongest first; an undefined r counts as 0."""
    strength = correlation["pearson_r"].abs().fillna(0).groupby(correlation["measure"]).mean()
    return list(strength.sort_values(ascending=False, kind="stable").index)


@styled
def draw_correlation(
    similarity: pd.DataFrame,
    combined: pd.DataFrame,
    correlation: pd.DataFrame,
    paradigms: Mapping[str, str],
    method: str,
    labels: Mapping[str, str],
) -> Figure:
    """Draw a block of panels per model, a panel per measure, with the strongest correlation first."""
    pairs = paired(similarity, combined, paradigms, method)
    models = list(pairs["model"].unique())
    results = correlation[correlation["model"].isin(models)]
    measures = by_strength(results)
    lines = math.ceil(len(measures) / SMALL_COLUMNS)
    columns = math.ceil(len(measures) / lines)
    size = (max(3.6, min(PAGE, 0.4 + 1.5 * columns)), 0.7 + len(models) * (0.15 + 1.3 * lines))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(models) * lines, columns, sharey=True, squeeze=False)
    for panels, model in zip(grid.reshape(len(models), -1), models, strict=True):
        for axes, measure in zip(panels, measures, strict=False):
            chosen = (pairs["model"] == model) & (pairs["measure"] == measure)
            result = results[(results["model"] == model) & (results["measure"] == measure)].iloc[0]
            draw_points(axes, pairs[chosen], result)
            axes.set_title(f"{labels[measure]}\n{correlation_text(result)}", fontsize="small")
            axes.xaxis.set_major_locator(MaxNLocator(3, steps=STEPS))
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
            axes.tick_params(axis="x", labelsize="small")
            axes.margins(0.12)
        heading = panels[0].set_title(model, loc="left", fontweight="bold")  # above the centred title
        heading.set_transform(offset_copy(heading.get_transform(), figure, y=20, units="points"))
        for axes in panels[len(measures) :]:
            axes.remove()
    for axes in panels[: len(measures)][-columns:]:  # the bottom panel of each column
        axes.set_xlabel("similarity", fontsize="small")
    figure.supylabel("mean dissociation D (%)", fontsize="medium")
    legend(figure)
    return figure


#: maximum number of panels per row
SCATTER_COLUMNS = 3
INTERVAL = {"color": "0.6", "linewidth": 0.7, "zorder": 0.9}


@styled
def draw_scatter(
    similarity: pd.DataFrame,
    combined: pd.DataFrame,
    correlation: pd.DataFrame,
    measure: str,
    paradigms: Mapping[str, str],
    method: str,
    labels: Mapping[str, str],
) -> Figure:
    """Draw a panel per model: a numbered point per pair of tasks, intervals, and the least-squares line."""
    pairs = paired(similarity, combined, paradigms, method)
    pairs = pairs[pairs["measure"] == measure]
    results = correlation[correlation["measure"] == measure].set_index("model")
    models, mixtures = list(pairs["model"].unique()), list(pairs["mixture"].unique())
    columns = min(SCATTER_COLUMNS, len(models))
    lines = math.ceil(len(models) / columns)
    width, height = (3.4, 2.7) if len(models) == 1 else (2.25, 2.2)
    numbers = (str(n).rjust(2, "\N{FIGURE SPACE}") for n in range(1, len(mixtures) + 1))
    key = [f"{n}  {mixture.replace('+', ' + ')}" for n, mixture in zip(numbers, mixtures, strict=True)]
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
    figure.draw_without_rendering()  # fixes the size of the panels, which positions of labels depend on
    for axes, model in zip(panels, models, strict=False):
        rows = pairs[pairs["model"] == model].reset_index(drop=True)
        shown = rows.dropna(subset=["similarity", "dissociation"])
        names = [str(number + 1) for number in shown.index]
        points = np.stack([shown["similarity"], 100 * shown["dissociation"]], axis=-1)
        name_points(axes, points, names, _error_lines(shown, results.loc[model]))
    return figure


def _error_lines(pairs: pd.DataFrame, result: pd.Series) -> NDArray[np.float64]:
    """Return corners (n, 4) of boxes along the lines of a panel: intervals and the least-squares line."""
    x, y = pairs["similarity"], 100 * pairs["dissociation"]
    upright = np.stack([x, 100 * pairs["ci_low"], x, 100 * pairs["ci_high"]], axis=-1)
    level = np.stack([pairs["similarity_low"], y, pairs["similarity_high"], y], axis=-1)
    along = np.linspace(x.min(), x.max(), 31)
    fit = np.stack([along, 100 * (result["intercept"] + result["slope"] * along)], axis=-1)
    boxes = np.concatenate([upright, level, np.hstack([fit[:-1], fit[1:]])]).astype(float)
    complete: NDArray[np.float64] = boxes[~np.isnan(boxes).any(axis=1)]
    return complete


#: quantiles over voxels: whiskers, box edges, and the line in the box
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CEILING = "other subjects"
#: fill of the boxes for tasks, and for the ceiling
TASK_BOX: dict[str, Any] = {"facecolor": "#77aadd"}
CEILING_BOX: dict[str, Any] = {"facecolor": "#e8eef4", "hatch": "//////"}
SUBJECT = DOT | {"label": "mean of one subject", "markersize": 2.6, "zorder": 4}


@styled
def draw_brain_encoding(
    encoding: Mapping[int, pd.DataFrame], summaries: Mapping[int, pd.DataFrame], tasks: Sequence[str]
) -> Figure:
    """Draw box plots over the voxels of all subjects: a row per task, and one for the ceiling, if known.

    The r of a voxel is the mean over seeds. A subject counts as predicted if p is at most 0.05 in every seed.
    """
    keys = ["subject", "voxel"]
    frame = stacked(encoding)
    r = frame.groupby(["task", *keys])["r"].mean()
    rows = {task: r[task] for task in tasks}
    ceiling = frame.groupby(keys)["ceiling"].first().dropna()
    if len(ceiling):
        rows[CEILING] = ceiling
    label_width = max(1.15, 0.062 * max(map(len, rows)))
    figure = Figure(figsize=(label_width + 3.2, 0.85 + 0.24 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for y, (name, values) in enumerate(rows.items()):
        _box(axes, y, values, CEILING_BOX if name == CEILING else TASK_BOX)
    axes.axvline(0, color="black", linewidth=0.6, zorder=0.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    p = stacked(summaries).groupby(["task", "subject"])["p_value"].max().unstack()
    for y, task in enumerate(tasks):
        count = f"{(p.loc[task] <= SIGNIFICANCE).sum()}/{p.loc[task].notna().sum()}"
        axes.annotate(count, (1, y), (4, 0), ("axes fraction", "data"), "offset points", va="center")
    axes.annotate(f"p \u2264 {SIGNIFICANCE}", (1, 1), (4, 2), "axes fraction", "offset points", va="bottom")
    axes.grid(axis="x")
    axes.set_xlabel("correlation of predicted and measured responses, r")
    legend(figure)
    return figure


def _box(axes: Axes, y: int, values: pd.Series, fill: dict[str, Any]) -> None:
    """Draw the quantiles of `values`, indexed by subject and voxel, and each subject's mean."""
    names = ("whislo", "q1", "med", "q3", "whishi")
    box = dict(zip(names, np.quantile(values, QUANTILES), strict=True))
    axes.bxp(
        [box],
        positions=[y],
        widths=0.62,
        orientation="horizontal",
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"linewidth": 0.6} | fill,
        medianprops={"color": "black", "linewidth": 1.2},
        whiskerprops={"linewidth": 0.6},
        capprops={"linewidth": 0.6},
    )
    means = values.groupby("subject").mean()
    lanes = np.linspace(-0.2, 0.2, len(means)) if len(means) > 1 else [0.0]
    axes.plot(means, y + np.array(lanes), **SUBJECT)
