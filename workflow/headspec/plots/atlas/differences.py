"""How measures of every head differ between the tasks of a mixture."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headspec.plots.atlas.measures import NAMES, SIGNED, heat_maps, panel_size
from headspec.plots.drawing.style import legend, styled

#: measure: unit of its difference, and factor to it
UNITS = {
    "importance": ("share of the sum (points)", 100),
    "ablation_size": ("share of the sum (points)", 100),
    "relevance": ("share of the layer (points)", 100),
    "confidence": ("attention weight (points)", 100),
}
#: corrected p-value below which a head is marked
SIGNIFICANCE = 0.05
#: marker of a head that the task has more of, or less, than the other; legend entry
MARKS = {1: ("+", f"more, p < {SIGNIFICANCE}"), -1: ("_", f"less, p < {SIGNIFICANCE}")}
#: longest stroke of a mark, in points
LONGEST = 5


@styled
def draw(differences: pd.DataFrame) -> Figure:
    """Heat maps of a task minus the other one, or minus the mean of the others; a column per measure.

    Parameters
    ----------
    differences : rows of the table 'task_differences' of one model, mixture and method
    """
    pairs = list(dict.fromkeys(zip(differences["task"], differences["against"], strict=True)))
    names = [f"{task}\n\N{MINUS SIGN} {against}" for task, against in pairs]
    measures = [measure for measure in UNITS if measure in set(differences["measure"])]
    shape = (len(pairs), len(measures), differences["layer"].max() + 1, differences["head"].max() + 1)
    figure, grid = heat_maps(shape, names)
    longest = min(0.6 * 72 * min(panel_size(shape, names) / shape[:1:-1]), LONGEST)
    for column, measure in enumerate(measures):
        unit, factor = UNITS[measure]
        rows = differences[differences["measure"] == measure]
        largest = factor * np.abs(rows["difference"].to_numpy()).max() or 1
        for axes, (task, against) in zip(grid[:, column], pairs, strict=True):
            heads = rows[(rows["task"] == task) & (rows["against"] == against)]
            values = heads.pivot(index="layer", columns="head", values="difference").to_numpy(dtype=float)
            image = axes.imshow(
                factor * values, cmap=SIGNED, vmin=-largest, vmax=largest, aspect="auto", origin="lower"
            )
            _mark(axes, heads, longest)
        grid[0, column].set_title(NAMES[measure])
        bar = figure.colorbar(
            image, ax=grid[:, column], location="bottom", aspect=12, shrink=0.8, pad=0.03,
            ticks=MaxNLocator(4),
        )  # fmt: skip
        bar.set_label(unit)
    legend(figure)
    return figure


def _mark(axes: Axes, heads: pd.DataFrame, longest: float) -> None:
    """Mark heads whose difference is clear by its sign."""
    clear = heads[heads["p_holm"] < SIGNIFICANCE]
    for sign, (marker, label) in MARKS.items():
        chosen = clear[np.sign(clear["difference"]) == sign]
        axes.scatter(
            chosen["head"], chosen["layer"], longest**2, color="black", marker=marker, linewidth=0.6,
            label=label,
        )  # fmt: skip
