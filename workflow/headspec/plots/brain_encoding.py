"""Prediction of voxels by the vectors of each task, and by other subjects."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots.drawing.marks import DOT
from headspec.plots.drawing.style import legend, stacked, styled
from headspec.statistics.resampling import SIGNIFICANCE

#: quantiles over voxels: whiskers, edges of the box, and the line in it
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CEILING = "other subjects"
#: fill of the boxes of tasks, and of the ceiling
TASK_BOX: dict[str, Any] = {"facecolor": "#77aadd"}
CEILING_BOX: dict[str, Any] = {"facecolor": "#e8eef4", "hatch": "//////"}
SUBJECT = DOT | {"label": "mean of one subject", "markersize": 2.6, "zorder": 4}


@styled
def draw_brain_encoding(
    encoding: Mapping[int, pd.DataFrame], summaries: Mapping[int, pd.DataFrame], tasks: Sequence[str]
) -> Figure:
    """Box plots over the voxels of all subjects: a row per task and one for the ceiling.

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
    """Draw quantiles of `values`, indexed by subject and voxel, and the mean of each subject."""
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
