"""Improvement by IAT against the heads per task (alpha) and the share of training (delta)."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headspec.config.values import MEAN
from headspec.plots.drawing.style import SHADES, number, styled


@styled
def draw(improvement: pd.DataFrame) -> Figure:
    """A cell per alpha (columns) and delta (rows): the mean difference to MTL above its interval.

    Only IAT that continues from `tuned` is shown; the cell of the method `iat` is outlined.
    """
    sampling = improvement.loc[improvement["method"] == "tuned", "sampling"].iloc[0]
    swept = (improvement["heads"] == "top") & (improvement["sampling"] == sampling)
    means = improvement[swept & (improvement["task"] == MEAN)]
    alphas, deltas = (np.sort(means[name].unique()) for name in ("alpha", "delta"))
    values = np.full((len(deltas), len(alphas)), np.nan)
    size = (0.85 * len(alphas) + 1.1, 0.42 * len(deltas) + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for _, row in means.iterrows():
        y, x = np.searchsorted(deltas, row["delta"]), np.searchsorted(alphas, row["alpha"])
        values[y, x] = 100 * row["difference"]
        low, high = (number(100 * row[name]) for name in ("ci_low", "ci_high"))
        sign = "+" if round(values[y, x], 2) > 0 else ""
        axes.text(x, y + 0.14, sign + number(values[y, x]), ha="center", va="center")
        axes.text(x, y - 0.22, f"[{low}, {high}]", ha="center", va="center", fontsize=5.5)
        if row["method"] == "iat":
            outline = Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, linewidth=1.6, clip_on=False, zorder=3)
            axes.add_patch(outline)
    low, high = min(0, np.nanmin(values)), max(0, np.nanmax(values))  # noise far from 0 stays pale
    image = axes.imshow(values, cmap=SHADES, aspect="auto", vmin=low, vmax=max(high, low + 0.01))
    axes.set_xticks(range(len(alphas)), [f"{100 * alpha:.3g}" for alpha in alphas])
    axes.set_yticks(range(len(deltas)), [f"{100 * delta:.3g}" for delta in deltas])
    axes.set_ylim(-0.5, len(deltas) - 0.5)  # delta grows upwards
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("alpha (% of heads)")
    axes.set_ylabel("delta (%)")
    figure.colorbar(image, ax=axes, aspect=14, pad=0.02).set_label("points")
    return figure
