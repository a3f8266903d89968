"""What single heads know of the labels of a task, before and after training."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, legend, styled

PRETRAINED, SINGLE = "pretrained", "single"
#: most labels that are drawn
SHOWN = 20
TITLES = {"best": "best head", "mean": "mean of all heads"}


@styled
def draw(probes: pd.DataFrame) -> Figure:
    """A panel for the best head and one for all, a line for each label, a point for each group of runs.

    Parameters
    ----------
    probes : rows of the table 'probes' of one model and task
    """
    trained = probes["mixture"].where(probes["method"] == "tuned", probes["method"])
    named = probes.assign(
        runs=trained.where(probes["method"] != "frozen", probes["mixture"] + ", frozen"),
        label=probes["label"].fillna("all"),
    )
    order = named.sort_values(["n", "label"], ascending=[False, True])["label"].unique()[: SHOWN + 1]
    runs = sorted(named["runs"].unique(), key=lambda name: (name != PRETRAINED, name != SINGLE))
    figure = Figure(figsize=(PAGE, 1.2 + 0.24 * len(order)), layout="constrained")
    panels = figure.subplots(1, len(TITLES), sharey=True, squeeze=False)[0]
    for axes, (heads, title) in zip(panels, TITLES.items(), strict=True):
        for i, name in enumerate(runs):
            rows = named[(named["heads"] == heads) & (named["runs"] == name)].set_index("label").loc[order]
            places = [y + 0.6 * ((i + 0.5) / len(runs) - 0.5) for y in range(len(order))]
            colour = COLOURS[i % len(COLOURS)]
            axes.hlines(
                places, 100 * rows["accuracy_low"], 100 * rows["accuracy_high"], color=colour, linewidth=0.7
            )
            axes.plot(
                100 * rows["accuracy"], places, color=colour, marker=MARKERS[i % len(MARKERS)],
                markersize=3.5, linestyle="none", label=name,
            )  # fmt: skip
            axes.plot(
                100 * rows["control"], places, color=colour, marker="x", markersize=3, linestyle="none",
                alpha=0.7,
            )  # fmt: skip
        axes.plot([], color="0.3", marker="x", markersize=3, linestyle="none", label="control")
        axes.set_title(title)
        axes.set_xlabel("right (%)")
        axes.set_xlim(-2, 102)
        axes.grid(axis="x")
    panels[0].set_yticks(range(len(order)), order)
    panels[0].invert_yaxis()
    legend(figure)
    return figure
