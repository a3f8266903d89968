"""Pairs of tasks as points of dissociation against similarity."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from headspec.plots.drawing.style import number

#: whether the tasks of a pair share the input paradigm: (legend entry, look)
PARADIGMS: dict[bool, tuple[str, dict[str, Any]]] = {
    True: ("same input paradigm", {"marker": "o", "color": "#332288"}),
    False: ("different paradigms", {"marker": "D", "color": "#cc6677", "markersize": 3}),
}
#: a pair with a task at chance
AT_CHANCE = "hollow: at chance, D means little"
HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 0.8, "label": AT_CHANCE}
#: a pair that no correlation counts
LEFT_OUT = "crossed: unpruned model at chance, left out"
CROSSED = {"marker": "x", "color": "0.4", "label": LEFT_OUT}


def draw_points(axes: Axes, pairs: pd.DataFrame, result: pd.Series) -> None:
    """Draw a point for each of `pairs`, rows of `paired`, and the least-squares line if it is defined."""
    left_out = pairs["left_out"].to_numpy()
    if left_out.any():
        _dots(axes, pairs[left_out], CROSSED)
    pairs = pairs[~left_out]
    for same, (label, look) in PARADIGMS.items():
        group = pairs[pairs["same_paradigm"] == same]
        if len(group):
            _dots(axes, group[~group["at_chance"]], look | {"label": label})
        if group["at_chance"].any():
            _dots(axes, group[group["at_chance"]], look | HOLLOW)
    if pd.notna(result["slope"]):
        ends = np.array([pairs["similarity"].min(), pairs["similarity"].max()])
        line = 100 * (result["intercept"] + result["slope"] * ends)
        axes.plot(ends, line, color="0.35", linewidth=0.8, zorder=1, label="least squares")


def _dots(axes: Axes, pairs: pd.DataFrame, look: dict[str, Any]) -> None:
    axes.plot(pairs["similarity"], 100 * pairs["dissociation"], linestyle="none", **look)


def correlation_text(
    result: pd.Series, p_name: str = "p", r: str = "pearson_r", p_of: str = "p_mantel"
) -> str:
    """A correlation and its permutation p-value as text, from the columns `r` and `p_of` of a row."""
    if pd.isna(result[r]):
        return "r undefined"
    p = result[p_of]
    return f"r = {number(result[r])}, {p_name} {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
