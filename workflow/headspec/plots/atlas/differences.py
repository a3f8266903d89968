"""Differences of measures of every head between the tasks of a mixture."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.attention import Layers, as_array
from headspec.plots.atlas.measures import BAR, draw_signed, heat_maps, panel_size
from headspec.plots.drawing.style import legend, styled
from headspec.statistics.resampling import SIGNIFICANCE
from headspec.statistics.verdicts import decisive

#: measure: unit of its difference, and factor to it
UNITS = {
    "importance": ("share of the sum (points)", 100),
    "ablation_size": ("share of the sum (points)", 100),
    "relevance": ("share of the layer (points)", 100),
    "confidence": ("attention weight (points)", 100),
}
#: marker of a head that the task has more of, or less, than the other; legend entry
MARKS = {1: ("+", f"more, p < {SIGNIFICANCE}"), -1: ("_", f"less, p < {SIGNIFICANCE}")}
#: longest stroke of a mark, in points
LONGEST = 5


@styled
def draw(differences: pd.DataFrame, labels: Mapping[str, str], attention: Layers | None = None) -> Figure:
    """Heat maps of a task minus the other one, or minus the mean of the others; a column per measure."""
    pairs = list(dict.fromkeys(zip(differences["task"], differences["against"], strict=True)))
    names = [f"{task}\n\N{MINUS SIGN} {against}" for task, against in pairs]
    measures = [measure for measure in UNITS if measure in set(differences["measure"])]
    shape = (len(pairs), len(measures), differences["layer"].max() + 1, differences["head"].max() + 1)
    figure, grid = heat_maps(shape, names, BAR, attention)
    longest = min(0.6 * 72 * min(panel_size(shape, names) / shape[:1:-1]), LONGEST)
    for column, measure in zip(grid.T, measures, strict=True):
        unit, factor = UNITS[measure]
        rows = differences[differences["measure"] == measure].set_index(["task", "against"])
        heads_by_pair = [rows.loc[[pair]] for pair in pairs]
        maps = [as_array(heads.set_index(["layer", "head"])["difference"]) for heads in heads_by_pair]
        draw_signed(column, [factor * values for values in maps], unit)
        for axes, heads in zip(column, heads_by_pair, strict=True):
            _mark(axes, heads, longest)
        column[0].set_title(labels[measure])
    legend(figure)
    return figure


def _mark(axes: Axes, heads: pd.DataFrame, longest: float) -> None:
    """Mark heads whose difference is clear by its sign."""
    clear = heads[decisive(heads) < SIGNIFICANCE]
    for sign, (marker, label) in MARKS.items():
        chosen = clear[np.sign(clear["difference"]) == sign]
        axes.scatter(
            chosen["head"], chosen["layer"], longest**2, color="black", marker=marker, linewidth=0.6,
            label=label,
        )  # fmt: skip
