"""Pairs of tasks as points, dissociation against similarity: what the figures of it share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from headspec.plots import number

#: whether a pair's tasks share the input paradigm: (legend, look)
PARADIGMS: dict[bool, tuple[str, dict[str, Any]]] = {
    True: ("same input paradigm", {"marker": "o", "color": "#332288"}),
    False: ("different paradigms", {"marker": "D", "color": "#cc6677", "markersize": 3}),
}
#: a pair at the floor
FLOOR = "hollow: at chance, D means little"
HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 0.8, "label": FLOOR}


def draw_points(axes: Axes, pairs: pd.DataFrame, result: pd.Series) -> None:
    """A point for each of `pairs`, and the line of least squares where there is one.

    Parameters
    ----------
    axes : Axes
    pairs : rows of `headspec.correlation.paired` of one model and measure
    result : row of the table 'correlation'
    """
    for same, (label, look) in PARADIGMS.items():
        part = pairs[pairs["same_paradigm"] == same]
        if len(part):
            _dots(axes, part[~part["floor"]], look | {"label": label})
        if part["floor"].any():
            _dots(axes, part[part["floor"]], look | HOLLOW)
    if pd.notna(result["slope"]):
        ends = np.array([pairs["similarity"].min(), pairs["similarity"].max()])
        line = 100 * (result["intercept"] + result["slope"] * ends)
        axes.plot(ends, line, color="0.35", linewidth=0.8, zorder=1, label="least squares")


def _dots(axes: Axes, pairs: pd.DataFrame, look: dict[str, Any]) -> None:
    axes.plot(pairs["similarity"], 100 * pairs["dissociation"], linestyle="none", **look)


def verdict(result: pd.Series, p_name: str = "p", r: str = "pearson_r", p_of: str = "p_mantel") -> str:
    """A correlation and its permutation p, as text, from the columns `r` and `p_of` of a row."""
    if pd.isna(result[r]):
        return "r is not defined"
    p = result[p_of]
    return f"r = {number(result[r])}, {p_name} {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
