"""Whether the same tasks are fragile in several models, against the fraction of heads pruned."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.curves import mixture_grid
from headspec.plots.drawing.style import key, legend, styled
from headspec.statistics.resampling import SIGNIFICANCE


@styled
def draw_shared_fragility(
    shared_fragility: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], method: str
) -> Figure:
    """Draw a panel per mixture: correlation of fragility in two models, and in all, by fraction of heads.

    Parameters
    ----------
    shared_fragility : table 'shared_fragility'
    mixtures : mixture: its tasks, three or more, in the order of the panels
    """
    figure, panels = mixture_grid(mixtures, "correlation of fragility")
    shown = shared_fragility[shared_fragility["method"] == method]
    for axes, mixture in zip(panels, mixtures, strict=True):
        axes.axhline(0, color="0.6", linewidth=0.6)
        rows = shown[shown["mixture"] == mixture].sort_values("fraction")
        for _, line in rows.groupby("models", sort=False):
            every = line["n_models"].iloc[0] == rows["n_models"].max()
            colour, width, label = ("black", 1.4, "all models") if every else ("0.6", 0.7, "two models")
            x, clear = 100 * line["fraction"], line["p_holm"] < SIGNIFICANCE
            axes.plot(x, line["r"], color=colour, linewidth=width, label=label, zorder=2 + every)
            for which, face in ((clear, colour), (~clear, "white")):
                dots = {"color": colour, "markerfacecolor": face, "markersize": 4, "zorder": 3 + every}
                axes.plot(x[which], line["r"][which], "o", **dots)
        axes.set_ylim(-1.08, 1.08)
        axes.set_title(mixture)
    key(
        panels[0], f"p after Holm below {SIGNIFICANCE:g}", color="0.3", marker="o", markersize=4, linestyle=""
    )
    legend(figure)
    return figure
