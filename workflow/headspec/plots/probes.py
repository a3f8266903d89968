"""What single heads encode about labels, and how training changes it."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headspec.config.runs import NO_MIXTURE
from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, SHADES, key, legend, styled

#: groups of runs, in order; others follow
FIRST_RUNS = ("random", "pretrained", "single")
#: maximum number of labels drawn
SHOWN_LABELS = 20
#: title of each panel: its rows and column
PANELS = {
    "best head": ("best", "accuracy"),
    "mean of all heads": ("mean", "accuracy"),
    "best head beyond its control": ("best", "selectivity"),
}


@styled
def draw_known(probes: pd.DataFrame, joint: str | None) -> Figure:
    """Draw accuracy of the best and of all heads, and selectivity: a row for each label, a point per group.

    `joint` is the mixture that is shown; the `SHOWN_LABELS` most frequent labels are.
    """
    probes = probes[probes["method"].isin(FIRST_RUNS) | (probes["mixture"] == joint)]
    names = probes["mixture"].where(probes["method"] == "tuned", probes["mixture"] + ", " + probes["method"])
    named = probes.assign(
        runs=names.where(~probes["method"].isin(FIRST_RUNS), probes["method"]),
        label=probes["label"].fillna("all"),
    )
    order = named.sort_values(["n", "label"], ascending=[False, True])["label"].unique()[: SHOWN_LABELS + 1]
    places = {name: place for place, name in enumerate(FIRST_RUNS)}
    runs = sorted(named["runs"].unique(), key=lambda name: places.get(name, len(FIRST_RUNS)))
    height = 1.2 + len(order) * max(0.24, 0.055 * len(runs))
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for axes, (title, (heads, column)) in zip(panels, PANELS.items(), strict=True):
        rows = named[named["heads"] == heads].set_index("label")
        for i, name in enumerate(runs):
            _group(axes, rows[rows["runs"] == name].loc[order], column, i, len(runs), name)
        if column == "accuracy":
            key(axes, "control", color="0.3", marker="|", markersize=4, linestyle="none")
            axes.set_xlim(-2, 102)
        else:
            axes.axvline(0, color="0.6", linewidth=0.6)
        axes.set_title(title)
        axes.set_xlabel("right (%)" if column == "accuracy" else "difference (points)")
        axes.grid(axis="x")
    panels[0].set_yticks(range(len(order)), order)
    panels[0].set_ylim(len(order) - 0.5, -0.5)
    legend(figure)
    return figure


def _group(axes: Axes, rows: pd.DataFrame, column: str, lane: int, lanes: int, name: str) -> None:
    """Draw the points of a group of runs with intervals, and strokes for the control of its accuracy."""
    places = [y + 0.8 * ((lane + 0.5) / lanes - 0.5) for y in range(len(rows))]
    look: dict[str, Any] = {"color": COLOURS[lane % len(COLOURS)], "markersize": 3, "linestyle": "none"}
    low, high = (100 * rows[f"{column}_{end}"] for end in ("low", "high"))
    axes.hlines(places, low, high, color=look["color"], linewidth=0.7)
    axes.plot(100 * rows[column], places, marker=MARKERS[lane % len(MARKERS)], label=name, **look)
    if column == "accuracy":
        axes.plot(100 * rows["control"], places, marker="|", alpha=0.7, **look)


#: maximum number of labels drawn
MAPPED_LABELS = 10


@styled
def draw_probed_heads(probed: Sequence[pd.DataFrame], shown: Sequence[tuple[str, int]]) -> Figure:
    """Draw a panel for each group `shown` (name, number of tables), with a row per label, a column per head.

    The shade is the mean accuracy over runs, for attention in the better direction of each run; a dot marks
    the best head. The `MAPPED_LABELS` most frequent labels are shown.
    """
    tables = iter(probed)
    groups = {name: list(itertools.islice(tables, n)) for name, n in shown}
    accuracies = {name: _accuracy(tables) for name, tables in groups.items()}
    units = next(iter(groups.values()))[0].drop_duplicates(["fold", "label", "direction"])
    units = units[units["direction"].isna() | (units["direction"] == "to")]
    n = units.groupby("label")["n"].sum().sort_values(ascending=False, kind="stable")
    labels = n[n > 0].index[:MAPPED_LABELS]
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
    """Return the mean accuracy over runs: a row for each label, a column for each (layer, head)."""
    runs = []
    for table in tables:
        heads = table.assign(direction=table["direction"].fillna(""))
        sums = heads.groupby(["label", "direction", "layer", "head"])[["right", "n"]].sum()
        rate = sums["right"] / sums["n"]
        runs.append(rate.groupby(["label", "layer", "head"]).max())
    return pd.concat(runs, axis=1).mean(axis=1).unstack(["layer", "head"]).sort_index(axis=1)


#: method of runs: their name, given the mixture, and the methods of which the first available is compared
COMPARED = {
    "single": ("single-task", ("pretrained", "random")),
    "tuned": ("{}", ("single", "pretrained", "random")),
    "iat": ("{} by IAT", ("tuned",)),
    "even": ("{} in equal shares", ("tuned",)),
}
CEILING = "ceiling: no rise could be clear"
BEFORE = {
    "pretrained": "before training",
    "random": "before training",
    "single": "single-task",
    "tuned": "plain",
}


@styled
def draw_probe_changes(changes: pd.DataFrame, probes: pd.DataFrame, joint: str | None) -> Figure:
    """Draw the change of the best head's accuracy: a row for each label, a panel for each comparison.

    `joint` is the mixture that is shown. A stroke marks the ceiling, perfect accuracy, where by `probes`
    there is less room for a rise than the interval reaches below the change: no rise could be significant.
    """
    best = changes[(changes["heads"] == "best") & changes["mixture"].isin([*changes["task"], joint])]
    best = best.assign(label=best["label"].fillna("all")).sort_values(["n", "label"], ascending=[False, True])
    order = best.drop_duplicates("label").set_index("label")["n"][: SHOWN_LABELS + 1]
    parts = {}
    for method, (title, befores) in COMPARED.items():
        rows = best[best["method"] == method]
        if before := next((name for name in befores if name in {*rows["before"]}), None):
            title = f"{title.format(joint)},\nagainst {BEFORE[before]}"
            rows = rows[rows["before"] == before].set_index("label").loc[order.index]
            parts[title] = rows.assign(room=1 - _accuracy_before(rows, probes))
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


def _accuracy_before(rows: pd.DataFrame, probes: pd.DataFrame) -> pd.Series:
    """Return accuracy, by label, of the best heads in the runs that `rows` are compared with."""
    before, task, mixture = rows[["before", "task", "mixture"]].iloc[0]
    of = {"single": task, "tuned": mixture}.get(before, NO_MIXTURE)
    same = (probes["heads"] == "best") & (probes["method"] == before) & (probes["mixture"] == of)
    known = probes[same & (probes["task"] == task)]
    by_label: pd.Series = known.groupby(known["label"].fillna("all"))["accuracy"].mean()
    return by_label.reindex(rows.index)


def _comparison(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a point for each label, filled if its interval excludes 0, and the ceiling if it is near."""
    place = np.arange(len(rows))
    clear = ((rows["ci_low"] > 0) | (rows["ci_high"] < 0)).to_numpy()
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.hlines(place, 100 * rows["ci_low"], 100 * rows["ci_high"], color="0.6", linewidth=0.7)
    for chosen, face, label in [(clear, COLOURS[0], "interval without 0"), (~clear, "white", "with 0")]:
        axes.plot(
            100 * rows["change"][chosen], place[chosen], "o", color=COLOURS[0], markerfacecolor=face,
            markersize=4, label=label,
        )  # fmt: skip
    near = (rows["room"] < rows["change"] - rows["ci_low"]).to_numpy()
    axes.plot(100 * rows["room"][near], place[near], "|", color="black", markersize=6, label=CEILING)
    axes.grid(axis="x")
