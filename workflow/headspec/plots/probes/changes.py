"""Change by training of what heads know of labels, by how frequent the labels are."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.plots.drawing.style import COLOURS, PAGE, legend, styled

#: method of runs: their name, with the mixture, and what they are compared with, the first that there is
COMPARED = {
    "single": ("single-task", ("pretrained", "random")),
    "tuned": ("{}", ("single", "pretrained", "random")),
    "iat": ("{} by IAT", ("tuned",)),
    "even": ("{} in equal shares", ("tuned",)),
}
BEFORE = {
    "pretrained": "before training",
    "random": "before training",
    "single": "single-task",
    "tuned": "plain",
}
#: most labels that are drawn
SHOWN = 20


@styled
def draw(changes: pd.DataFrame, joint: str | None) -> Figure:
    """Change of the best head's accuracy: a row for each label, a panel for each comparison.

    `joint` is the mixture that is shown.
    """
    best = changes[(changes["heads"] == "best") & changes["mixture"].isin([*changes["task"], joint])]
    best = best.assign(label=best["label"].fillna("all")).sort_values(["n", "label"], ascending=[False, True])
    order = best.drop_duplicates("label").set_index("label")["n"][: SHOWN + 1]
    parts = {}
    for method, (title, befores) in COMPARED.items():
        rows = best[best["method"] == method]
        if before := next((name for name in befores if name in {*rows["before"]}), None):
            title = f"{title.format(joint)},\nagainst {BEFORE[before]}"
            parts[title] = rows[rows["before"] == before].set_index("label").loc[order.index]
    figure = Figure(figsize=(PAGE, 1.1 + 0.2 * len(order)), layout="constrained")
    panels = figure.subplots(1, max(1, len(parts)), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, rows) in zip(panels, parts.items(), strict=False):
        _comparison(axes, rows)
        axes.set_title(title)
        axes.set_xlabel("change (points)")
    panels[0].set_yticks(range(len(order)), [f"{label} ({n})" for label, n in order.items()])
    panels[0].set_ylim(len(order) - 0.5, -0.5)
    legend(figure)
    return figure


def _comparison(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a point for each label, filled where its interval leaves out 0."""
    place = np.arange(len(rows))
    clear = ((rows["ci_low"] > 0) | (rows["ci_high"] < 0)).to_numpy()
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.hlines(place, 100 * rows["ci_low"], 100 * rows["ci_high"], color="0.6", linewidth=0.7)
    for chosen, face, label in [(clear, COLOURS[0], "interval without 0"), (~clear, "white", "with 0")]:
        axes.plot(
            100 * rows["change"][chosen], place[chosen], "o", color=COLOURS[0], markerfacecolor=face,
            markersize=4, label=label,
        )  # fmt: skip
    axes.grid(axis="x")
