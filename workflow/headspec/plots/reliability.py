"""How reproducible importance is: between halves of the samples, and between seeds."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.methods import METHODS
from headspec.plots.drawing.style import heights, legend, mixture_panels, styled

#: kind of agreement: (legend entry, marker)
KINDS = {"split_half": ("split half", "o"), "seeds": ("two seeds", "D")}
#: method: fill of its markers
FILLS = {name: method.fill for name, method in METHODS.items() if method.fill}


@styled
def draw(reliability: pd.DataFrame) -> Figure:
    """Rank correlation of importance maps: a row per task of every mixture, a panel per model.

    Parameters
    ----------
    reliability : table 'reliability'
        Every seed (split halves) and every pair of seeds is a point.
    """
    figure, panels, rows = mixture_panels(reliability, "rank correlation of importance (Spearman)")
    methods = [method for method in FILLS if method in set(reliability["method"])]
    for key, group in reliability.groupby(["model", "kind", "method"]):
        model, kind, method = map(str, key)
        label, marker = KINDS[kind]
        panels[model].plot(
            group["spearman"],
            heights(rows, group, methods.index(method), len(methods)),
            color="black",
            linestyle="none",
            marker=marker,
            markerfacecolor=FILLS[method],
            markeredgewidth=0.5,
            label=f"{label}, {method}",
        )
    for axes in panels.values():
        axes.set_xlim(min(0, reliability["spearman"].min() - 0.05), 1.05)
    legend(figure)
    return figure
