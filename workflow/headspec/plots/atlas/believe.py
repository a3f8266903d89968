"""Which measure to believe: what is left of the model when heads are pruned by it, and the D it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import blended_transform_factory, offset_copy
from numpy.typing import NDArray

from headspec.plots.atlas.measures import NAMES
from headspec.plots.dissociation import DAGGER
from headspec.plots.drawing.style import MEAN, interval_label, legend, styled

RANDOM = "random"
#: p-value below which a marker is filled
SIGNIFICANCE = 0.05
#: method of training: look
METHODS: dict[str, dict[str, Any]] = {
    "tuned": {"marker": "o", "color": "#332288"},
    "iat": {"marker": "s", "color": "#117733"},
    "single": {"marker": "^", "color": "#882255"},
    "frozen": {"marker": "D", "color": "0.45"},
}
LINELESS: dict[str, Any] = {"linestyle": "none", "markersize": 4, "markeredgewidth": 0.8}
#: columns that name a row
KEYS = ["model", "mixture", "ranking"]


@styled
def draw(areas: pd.DataFrame, dissociation: pd.DataFrame) -> Figure:
    """A row per ranking in a block per model and mixture, sorted by area, the smallest on top.

    Parameters
    ----------
    areas : table 'pruning_areas'
        Left: means over tasks; filled if they differ from that of random orders.
    dissociation : table 'ranking_dissociation'
        Right: means over tasks; filled if they differ from 0. Rankings that all tasks share have none.
    """
    areas, dissociation = (table[table["task"] == MEAN] for table in (areas, dissociation))
    own = areas[areas["against"].isna()]
    tested = areas.loc[areas["against"] == RANDOM, [*KEYS, "method", "p_holm"]]
    own = own.drop(columns="p_holm").merge(tested, how="left", on=[*KEYS, "method"])
    methods = [method for method in METHODS if method in set(own["method"])]
    blocks = {block: _sorted(rows, methods) for block, rows in own.groupby(["model", "mixture"])}
    headings = [f"{model}, {mixture}" for model, mixture in blocks]
    lines = sum(1 + len(rankings) for rankings in blocks.values())
    size = (max(5.6, 0.072 * max(map(len, headings))), 0.8 + max(0.17, 0.1 * len(methods)) * lines)
    figure = Figure(figsize=size, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.set_xlabel("area under the pruning curve (%)")
    right.set_xlabel("dissociation D (%)")
    right.axvline(0, color="black", linewidth=0.6)
    rows = _name_rows(figure, left, blocks, headings)
    for lane, method in enumerate(methods):
        shift = 0.8 * ((lane + 0.5) / len(methods) - 0.5)
        of_method = (table[table["method"] == method] for table in (own, dissociation))
        for axes, results, column in zip((left, right), of_method, ("value", "dissociation"), strict=True):
            ys = np.array([rows[key] for key in results[KEYS].itertuples(index=False, name=None)]) + shift
            _draw_results(figure, axes, results, column, ys, method)
    _mark_random(left, own[(own["ranking"] == RANDOM) & (own["method"] == methods[0])], rows, blocks)
    left.plot(
        [],
        [],
        marker="o",
        label=f"hollow: p ≥ {SIGNIFICANCE}",
        color="black",
        markerfacecolor="white",
        **LINELESS,
    )
    for axes in (left, right):
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.08)
    legend(figure)
    return figure


def _sorted(rows: pd.DataFrame, methods: Sequence[str]) -> list[str]:
    """Rankings of a block by area under the first of `methods` that has them."""
    order = rows["method"].map(list(methods).index)
    first = rows.assign(order=order).sort_values("order", kind="stable").drop_duplicates("ranking")
    return list(first.sort_values(["order", "value"])["ranking"])


def _name_rows(
    figure: Figure, axes: Axes, blocks: Mapping[Any, list[str]], headings: Sequence[str]
) -> dict[tuple[str, ...], int]:
    """Write the names of rankings and, above those of a block, its heading; y by model, mixture, ranking."""
    rows: dict[tuple[str, ...], int] = {}
    y = 0
    for (block, rankings), heading in zip(blocks.items(), headings, strict=True):
        text = figure.text(
            0.01, y, heading, fontweight="bold", va="center",
            transform=blended_transform_factory(figure.transFigure, axes.transData),
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip
        text.set_in_layout(False)
        rows |= {(*block, ranking): y + 1 + i for i, ranking in enumerate(rankings)}
        y += 1 + len(rankings)
    axes.set_yticks(list(rows.values()), [NAMES[ranking] for *_, ranking in rows])
    axes.set_ylim(y - 0.4, -0.6)
    return rows


def _draw_results(
    figure: Figure, axes: Axes, results: pd.DataFrame, column: str, ys: NDArray[np.float64], method: str
) -> None:
    """Draw values and intervals of one method, and daggers beside values at chance."""
    if results.empty:
        return
    look = METHODS[method]
    axes.hlines(
        ys, 100 * results["ci_low"], 100 * results["ci_high"], color="black", label=interval_label(results)
    )
    filled = (results["p_holm"] < SIGNIFICANCE).to_numpy()
    for chosen, fill in ((filled, look["color"]), (~filled, "white")):
        axes.plot(
            100 * results[column][chosen], ys[chosen], markerfacecolor=fill, zorder=3, **LINELESS, **look
        )
    axes.plot([], [], label=method, **LINELESS, **look)
    if "at_chance" in results and results["at_chance"].any():
        beside = offset_copy(axes.transData, figure, x=5, units="points")
        at_chance = results["at_chance"].to_numpy(dtype=bool)
        ends = results["ci_high"].fillna(results[column])
        axes.plot(100 * ends[at_chance], ys[at_chance], transform=beside, **DAGGER)


def _mark_random(
    axes: Axes, random: pd.DataFrame, rows: Mapping[tuple[str, ...], int], blocks: Mapping[Any, list[str]]
) -> None:
    """A line through each block at the area of random orders."""
    for model, mixture, value in random[["model", "mixture", "value"]].itertuples(index=False):
        ys = [rows[model, mixture, ranking] for ranking in blocks[model, mixture]]
        axes.vlines(
            100 * value, min(ys) - 0.5, max(ys) + 0.5, color="0.5", linestyle=(0, (4, 2)), linewidth=0.7,
            zorder=1, label="random",
        )  # fmt: skip
