"""Dissociation of every task of every mixture, by every method."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.methods import METHODS
from headspec.config.values import MEAN
from headspec.plots.drawing.marks import DOT, mark_chance
from headspec.plots.drawing.style import (
    at_fraction,
    draw_intervals,
    heights,
    interval_label,
    legend,
    mixture_panels,
    styled,
)

BARS = {name: method.bar for name, method in METHODS.items() if method.bar}


@styled
def draw(
    combined: pd.DataFrame,
    dissociation: pd.DataFrame,
    mixtures: Mapping[str, Sequence[str]],
    fraction: float,
    distinct: float,
) -> Figure:
    """Bars of dissociation with intervals and dots for seeds, a block per mixture and a panel per model.

    A line shows the mean (fraction) that counts as `distinct`.
    """
    figure, panels, rows = mixture_panels(combined, mixtures, "dissociation D (%)")
    methods = [method for method in BARS if method in set(combined["method"])]
    seeds = _with_mean(at_fraction(dissociation, fraction))
    for model, axes in panels.items():
        axes.axvline(0, color="black", linewidth=0.6)
        line = f"distinct: {100 * distinct:.3g} %"
        axes.axvline(100 * distinct, color="black", linestyle=(0, (4, 2)), label=line)
        for lane, method in enumerate(methods):
            bars, dots = (t[(t["model"] == model) & (t["method"] == method)] for t in (combined, seeds))
            ys = heights(rows, bars, lane, len(methods))
            axes.barh(ys, 100 * bars["dissociation"], 0.8 / len(methods), label=method, **BARS[method])
            draw_intervals(axes, ys, bars, interval_label(combined))
            axes.plot(100 * dots["dissociation"], heights(rows, dots, lane, len(methods)), **DOT)
            mark_chance(axes, bars, ys)
    legend(figure)
    return figure


def _with_mean(dissociation: pd.DataFrame) -> pd.DataFrame:
    """Add the mean over the tasks of each run to the rows of single seeds."""
    run = ["model", "mixture", "method", "seed"]
    means = dissociation.groupby(run, as_index=False)["dissociation"].mean(skipna=False).assign(task=MEAN)
    return pd.concat([dissociation[[*run, "task", "dissociation"]], means])
