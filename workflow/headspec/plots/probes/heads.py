"""Knowledge that every head has of the labels of a task."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.drawing.style import PAGE, SHADES, styled

#: most labels that are drawn
SHOWN = 10


@styled
def draw(probed: Sequence[pd.DataFrame], shown: Sequence[tuple[str, int]]) -> Figure:
    """A panel for each group `shown` (name, number of tables), a row for each label, a column for each head.

    The shade is the mean accuracy of the runs, of attention in the better direction; a dot marks the best
    head.
    """
    tables = iter(probed)
    groups = {name: list(itertools.islice(tables, n)) for name, n in shown}
    accuracies = {name: _accuracy(tables) for name, tables in groups.items()}
    units = next(iter(groups.values()))[0].drop_duplicates(["fold", "label", "direction"])
    units = units[units["direction"].isna() | (units["direction"] == "to")]
    n = units.groupby("label")["n"].sum().sort_values(ascending=False, kind="stable")
    labels = n[n > 0].index[:SHOWN]
    figure = Figure(figsize=(PAGE, 0.5 + len(groups) * (0.35 + 0.16 * len(labels))), layout="constrained")
    panels = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, accuracy) in zip(panels, accuracies.items(), strict=True):
        values = 100 * accuracy.loc[labels]
        image = axes.imshow(values, cmap=SHADES, vmin=0, vmax=100, aspect="auto", interpolation="none")
        axes.plot(values.to_numpy().argmax(axis=1), range(len(labels)), "k.", markersize=3)
        axes.set_yticks(range(len(labels)), labels)
        axes.tick_params(length=0)
        axes.set_title(name)
        layer = values.columns.get_level_values("layer").to_numpy()
        starts = np.flatnonzero(np.diff(layer)) + 0.5
        for edge in starts:
            axes.axvline(edge, color="0.5", linewidth=0.5)
    edges = [-0.5, *starts, len(layer) - 0.5]
    middles = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    panels[-1].set_xticks(middles, sorted(set(layer.tolist())))
    panels[-1].set_xlabel("heads, by layer")
    figure.colorbar(image, ax=list(panels), aspect=40, pad=0.01).set_label("right (%)")
    return figure


def _accuracy(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Mean accuracy over runs: a row for each label, a column for each (layer, head)."""
    runs = []
    for table in tables:
        heads = table.assign(direction=table["direction"].fillna(""))
        sums = heads.groupby(["label", "direction", "layer", "head"])[["right", "n"]].sum()
        rate = sums["right"] / sums["n"]
        runs.append(rate.groupby(["label", "layer", "head"]).max())
    return pd.concat(runs, axis=1).mean(axis=1).unstack(["layer", "head"]).sort_index(axis=1)
