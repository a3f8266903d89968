"""Similarity of the heads that seeds and tasks keep, beside what the numbers by layer explain."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots.drawing.style import PAGE, legend, styled
from headspec.plots.gates.panels import SCOPES
from headspec.statistics.resampling import SIGNIFICANCE

MARKERS = {"shared": "D", "per_task": "o"}
SEEN: dict[str, Any] = {"linestyle": "none", "markersize": 3.5, "color": "black", "zorder": 3}
EXPECTED: dict[str, Any] = {
    "linestyle": "none",
    "marker": "|",
    "markersize": 8,
    "color": "#cc6677",
    "zorder": 2,
}


@styled
def draw(overlap: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """A panel for seeds and one for tasks: mean Jaccard of every pruning method and number of heads."""
    means = overlap[overlap["a"] == "mean"]
    order = {method: i for i, method in enumerate(labels)}
    means = means.assign(place=means["way"].map(order)).sort_values(["place", "fraction"], na_position="last")
    names = {key: place for place, key in enumerate(dict.fromkeys(map(_row, means.to_dict("records"))))}
    whats = [what for what in ("seeds", "tasks") if what in set(means["what"])]
    size = (min(PAGE, 2.2 + 2.3 * len(whats)), 0.9 + 0.14 * len(names))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(whats), squeeze=False, sharex=True, sharey=True)[0]
    for axes, what in zip(panels, whats, strict=True):
        _draw_panel(axes, means[means["what"] == what], names)
        axes.set_title(f"between {what}")
        axes.set_xlabel("heads in common (Jaccard)")
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="x")
    texts = [
        f"{labels[method]}, {'open' if fraction is None else f'{100 * fraction:g} %'}"
        for method, fraction in names
    ]
    panels[0].set_yticks(range(len(names)), texts)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    legend(figure)
    return figure


def _row(row: dict[Any, Any]) -> tuple[str, float | None]:
    return row["way"], None if pd.isna(row["fraction"]) else row["fraction"]


def _draw_panel(axes: Axes, means: pd.DataFrame, names: Mapping[tuple[str, float | None], int]) -> None:
    for row in means.to_dict("records"):
        y = names[_row(row)]
        axes.plot([row["jaccard_by_layer"], row["jaccard"]], [y, y], color="0.7", linewidth=0.7, zorder=1)
        axes.plot(row["jaccard_by_layer"], y, label="heads permuted within layers", **EXPECTED)
        look = SEEN | {"marker": MARKERS[row["scope"]]}
        look["markerfacecolor"] = "black" if row["p_holm"] < SIGNIFICANCE else "white"
        axes.plot(row["jaccard"], y, label=f"{SCOPES[row['scope']]}; filled: p < 0.05, corrected", **look)
    axes.tick_params(axis="y", length=0)
