"""Parts of pruning matrices, against the fraction of heads pruned."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.curves import mixture_grid
from headspec.plots.drawing.style import legend, styled

#: part: its name in the legend, and look
LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "source": ("strength of lists", {"facecolor": "#332288"}),
    "target": ("fragility of tasks", {"facecolor": "#88ccee"}),
    "own": ("own lists", {"facecolor": "#cc6677", "hatch": "///"}),
    "rest": ("rest", {"facecolor": "0.9"}),
}


@styled
def draw_matrix_parts(
    matrix_parts: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], method: str
) -> Figure:
    """Draw a panel per mixture: shares of the parts of its pruning matrix, a bar for each fraction of heads.

    Parameters
    ----------
    matrix_parts : table 'matrix_parts' of one model
    mixtures : mixture: its tasks, in the order of the panels
    """
    figure, panels = mixture_grid(mixtures, "share (%)")
    shown = matrix_parts[matrix_parts["method"] == method]
    for axes, mixture in zip(panels, mixtures, strict=True):
        rows = shown[shown["mixture"] == mixture]
        shares = 100 * rows.pivot(index="fraction", columns="part", values="share")
        places, bottom = np.arange(len(shares)), np.zeros(len(shares))
        for part, (label, look) in LOOKS.items():
            height = shares[part].fillna(0).to_numpy()
            axes.bar(places, height, 0.8, bottom, label=label, edgecolor="black", linewidth=0.4, **look)
            bottom += height
        axes.set_xticks(places, [f"{100 * fraction:g}" for fraction in shares.index])
        axes.set_title(mixture)
    legend(figure)
    return figure
