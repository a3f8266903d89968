"""A metric as heads of a model are closed: the most important, the least important and random ones."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

#: order: its label, colour and line
LOOKS = {
    "top": ("most important heads", "C0", "-"),
    "bottom": ("least important heads", "C2", "--"),
    "random": ("random heads", "0.5", "-"),
}


def plot_curve(curve: pd.DataFrame, axes: Axes | None = None) -> Axes:
    """Draw a curve of `headspec.head_curve` with its intervals, and return its axes.

    Parameters
    ----------
    axes : of matplotlib, optional; by default the current ones

    Examples
    --------
    >>> headspec.plot_curve(headspec.head_curve(model, batches, metric="accuracy"))
    """
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.gca()
    whole = curve[curve["order"] == "none"]
    for order, (label, colour, line) in LOOKS.items():
        part = pd.concat([whole, curve[curve["order"] == order]]).sort_values("fraction")
        x, value = part["fraction"], part["value"]
        axes.fill_between(x, part["low"], part["high"], color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, value, line, color=colour, marker="o", markersize=3.5, label=label)
    axes.axhline(whole["value"].iloc[0], color="black", linestyle=":", linewidth=0.8, label="all heads open")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("heads closed")
    axes.set_ylabel(curve.attrs.get("metric", "value"))
    axes.legend(frameon=False)
    return axes
