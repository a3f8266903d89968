"""Kept heads, and their kinds of attention and roles as more heads are pruned (Voita et al. 2019)."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from headspec.config.values import WHOLE
from headspec.head_arrays import KINDS, SELF, Layers, as_array, existing
from headspec.plots.atlas.heads import ROLES
from headspec.plots.drawing.heat_maps import divide, shade_gaps
from headspec.plots.drawing.style import COLOURS, MARKERS, PAGE, draw_upright, key, legend, styled
from headspec.plots.gates import panels, scale
from headspec.statistics.resampling import SIGNIFICANCE

#: maximum height of all rows, unless their names need more, and minimum height of a row, in inches
TALLEST, LOWEST = 8.0, 0.3


@styled
def draw_kept_heads(
    gates: pd.DataFrame, labels: Mapping[str, str], tasks: Sequence[str], attention: Layers | None = None
) -> Figure:
    """Draw a row for each pruning method (and task with its own heads), a column per fraction and the mean.

    With three seeds, a head has the colour R/G/B = 255 (1 - kept), one channel per seed (He and Choi 2021):
    white if none keeps it, black if all do, a colour if they differ. Of more seeds, the first three are
    shown. With fewer seeds, and in the mean over all seeds and numbers of heads, it is grey.
    """
    keys = ["way", "scope", "fraction", "penalty", "seed", "task"]
    last = gates.groupby(keys, dropna=False)["step"].transform("max")
    kept = gates[(gates["step"] == last) & (gates["way"] != WHOLE)]
    kept = kept.assign(task=kept["task"].fillna(""))
    rows = sorted(
        panels(kept, labels, tasks), key=lambda row: (row[1] == "per_task", [*labels].index(row[0]))
    )
    few = kept["seed"].nunique() < 3
    fractions = sorted(kept["fraction"].dropna().unique())
    exists = existing(as_array(kept.groupby(["layer", "head"])["kept"].first()))
    layers, heads = exists.shape
    width = (PAGE - 1.6) / (len(fractions) + 1)
    height = min(width * layers / heads, max(LOWEST, TALLEST / len(rows)))
    size = (PAGE, 0.5 + len(rows) * (0.1 + height))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(fractions) + 1, squeeze=False, sharex=True, sharey=True)
    for maps, (method, scope, task) in zip(grid, rows, strict=True):
        shown = kept[(kept["way"] == method) & (kept["scope"] == scope) & (kept["task"] == task)]
        for axes, fraction in zip(maps, fractions, strict=False):
            seed_maps = _maps(shown[shown["fraction"] == fraction], exists)
            _draw_map(axes, seed_maps[:3] if len(seed_maps) >= 3 else seed_maps.mean(axis=0, keepdims=True))
        _draw_map(maps[-1], _maps(shown, exists).mean(axis=0, keepdims=True))
        name = labels[method] + (f"\n{task}" if task else "")
        for axes in maps:
            divide(axes, attention, named=axes is maps[-1])
        maps[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axes, title in zip(grid[0], [*(f"{100 * f:g} % kept" for f in fractions), "mean"], strict=True):
        axes.set_title(title)
    greys = {"white": "no seed keeps it", "0.5": "some do", "black": "all do"}
    colours = {
        "white": "no seed keeps it", "cyan": "the first", "magenta": "the second", "yellow": "the third",
        "blue": "first and second", "lime": "first and third", "red": "second and third", "black": "all",
    }  # fmt: skip
    for colour, name in (greys if few else colours).items():
        look = {"markerfacecolor": colour, "markeredgecolor": "black", "markeredgewidth": 0.5}
        key(grid[0, 0], name, linestyle="none", marker="s", **look)
    legend(figure)
    figure.legends[0].set_title("head (columns) by layer (rows, the first at the bottom)")
    return figure


def _maps(rows: pd.DataFrame, exists: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the kept heads of each set, (sets, layers, heads); nan where there is no head."""
    sets = rows.groupby(["seed", "fraction", "penalty"], dropna=False)
    maps = [as_array(rows_of_set.set_index(["layer", "head"])["kept"]) for _, rows_of_set in sets]
    return np.stack(maps or [np.where(exists, 0.0, np.nan)])


def _draw_map(axes: Axes, kept: NDArray[np.float64]) -> None:
    """Draw one map, (1, layers, heads), in grey, or three seeds in colours."""
    exists, picture = existing(kept[0]), 1 - kept
    if len(kept) == 1:
        picture = picture[0]
    elif exists.all():
        picture = picture.transpose(1, 2, 0)
    else:  # the fourth channel is opacity
        picture = np.stack([*np.nan_to_num(picture), exists], axis=-1)
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, origin="lower", aspect="auto", interpolation="nearest")
    shade_gaps(axes, exists)
    axes.set_xticks([])
    axes.set_yticks([])


#: maximum number of panels per row
COLUMNS = 4
#: column of the table: name of its axis, and factor to the unit there
VALUES = {
    "share": ("heads of the kind\nthat are kept (%)", 100.0),
    "depth": ("mean layer kept\nminus mean layer of all", 1.0),
}


@styled
def draw_kept_kinds(kinds: pd.DataFrame, labels: Mapping[str, str], tasks: Sequence[str]) -> Figure:
    """Draw a column for each pruning method (and task with its own heads): shares kept above, layers below.

    If all heads are of one kind, whose share would be the number of heads kept, only layers are drawn.
    """
    rows = kinds[kinds["against"].isna()].assign(task=kinds["task"].fillna(""))
    whole, rest = rows[rows["way"] == WHOLE], rows[rows["way"] != WHOLE]
    shown = panels(rest, labels, tasks)
    bands = math.ceil(len(shown) / COLUMNS)
    columns = math.ceil(len(shown) / bands)
    values = VALUES if rows["kind"].nunique() > 1 else {"depth": VALUES["depth"]}
    lines = len(values)
    size = (max(PAGE * columns / COLUMNS, PAGE / 2), 0.6 + (0.2 + 1.25 * lines) * bands)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines * bands, columns, squeeze=False, sharex=True, sharey="row")
    for i, (method, scope, task) in enumerate(shown):
        band, column = divmod(i, columns)
        cells = grid[lines * band : lines * (band + 1), column]
        panel_rows, whole_rows = (
            frame[(frame["scope"] == scope) & (frame["task"] == task)] for frame in (rest, whole)
        )
        method_rows = pd.concat([panel_rows[panel_rows["way"] == method], whole_rows])
        for axes, (value, (_, factor)) in zip(cells, values.items(), strict=True):
            _draw_kinds(axes, method_rows, value, factor)
        depth = cells[-1]
        depth.axhline(0, color="0.6", linewidth=0.6, zorder=0)
        cells[0].set_title(textwrap.fill(labels[method], 24) + (f"\n{task}" if task else ""))
        depth.set_xlabel("heads kept")
        depth.tick_params(labelbottom=True)  # also above another row
    for first, (value, (name, factor)) in enumerate(values.items()):
        for axes in grid[first::lines, 0]:
            axes.set_ylabel(name)
            axes.set_ylim(*scale(rows, value, factor))
    for i in range(len(shown), bands * columns):
        for axes in grid[lines * (i // columns) : lines * (i // columns + 1), i % columns]:
            axes.remove()
    legend(figure)
    return figure


def _draw_kinds(axes: Axes, rows: pd.DataFrame, value: str, factor: float) -> None:
    """Draw a line for each kind, with intervals."""
    present = [kind for kind in (SELF, *KINDS) if kind in set(rows["kind"])]
    for i, kind in enumerate(present):
        kind_rows = rows[rows["kind"] == kind].sort_values("heads")
        heads = kind_rows["heads"]
        axes.plot(
            heads, factor * kind_rows[value], color=COLOURS[i], marker=MARKERS[i], markersize=3.5,
            linewidth=1.0, label=kind,
        )  # fmt: skip
        low, high = factor * kind_rows[f"{value}_low"], factor * kind_rows[f"{value}_high"]
        draw_upright(axes, heads, low, high, i, len(present), color=COLOURS[i])
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(axis="y")


BY_LAYER = (0, (4, 2))


@styled
def draw_kept_roles(counts: pd.DataFrame, labels: Mapping[str, str], tasks: Sequence[str]) -> Figure:
    """Draw a panel for each pruning method (and task with its own heads): a line per role, to all heads."""
    counts = counts.assign(task=counts["task"].fillna(""))
    whole = counts[counts["way"] == WHOLE]
    rest = counts[counts["way"] != WHOLE]
    shown = panels(rest, labels, tasks)
    columns = min(COLUMNS, rest["way"].nunique())
    lines = math.ceil(len(shown) / columns)
    size = (max(PAGE * columns / COLUMNS, PAGE / 2), 1.0 + 1.6 * lines)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for axes, (method, scope, task) in zip(grid, shown, strict=False):
        panel_rows, whole_rows = (
            rows[(rows["scope"] == scope) & (rows["task"] == task)] for rows in (rest, whole)
        )
        method_rows = panel_rows[panel_rows["way"] == method]
        if method_rows["after"].isna().all():
            whole_rows = whole_rows.assign(after=np.nan)
        _draw_roles(axes, pd.concat([method_rows, whole_rows]))
        axes.set_title(labels[method] + (f"\n{task}" if task else ""))
    for axes in grid[len(shown) - columns : len(shown)]:
        axes.set_xlabel("heads kept")
    for axes in grid[::columns]:
        axes.set_ylabel("heads with the role")
    for axes in grid[len(shown) :]:
        axes.remove()
    key(grid[0], "kept at random within layers", linestyle=BY_LAYER, color="0.4")
    if counts["after"].notna().any():
        key(grid[0], "after further training", linestyle=":", marker="+", color="0.4")
    legend(figure)
    return figure


def _draw_roles(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the lines of all roles; `rows` are of one pruning method, and of the whole model."""
    for role, marker, colour in ((role, look["marker"], look["facecolor"]) for role, look in ROLES.items()):
        role_rows = rows[rows["role"] == role].sort_values("heads")
        if role_rows.empty:
            continue
        heads, trained = role_rows["heads"], role_rows.dropna(subset="after")
        axes.plot(heads, role_rows["kept"], color=colour)
        axes.vlines(
            heads, role_rows["kept_least"], role_rows["kept_most"], color=colour, linewidth=0.6, alpha=0.6
        )
        axes.plot(heads, role_rows["kept_by_layer"], color=colour, linestyle=BY_LAYER, linewidth=0.7)
        axes.plot(trained["heads"], trained["after"], "+:", color=colour, markersize=4, linewidth=0.8)
        key(axes, role, marker=marker, color=colour)
        sure = role_rows["p_holm"] < SIGNIFICANCE
        for points, fill in ((role_rows[sure], colour), (role_rows[~sure], "white")):
            axes.plot(points["heads"], points["kept"], marker, color=colour, markerfacecolor=fill)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
