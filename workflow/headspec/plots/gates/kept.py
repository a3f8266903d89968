"""Kept heads: three seeds as the three colours of one picture, and the mean over all."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headspec.attention import Layers, as_array, existing
from headspec.config.values import WHOLE
from headspec.plots.drawing.kinds import divide, shade_gaps
from headspec.plots.drawing.style import PAGE, key, legend, styled
from headspec.plots.gates.panels import panels

#: inches: of all rows together, as long as each has room for its name
TALLEST, LOWEST = 8.0, 0.3


@styled
def draw(
    gates: pd.DataFrame, labels: Mapping[str, str], tasks: Sequence[str], attention: Layers | None = None
) -> Figure:
    """A row for each pruning method (and task with heads of its own), a column per number of heads.

    With three seeds, a head is drawn in R/G/B = 255 (1 - kept) of each (He and Choi 2021): white if none
    keeps it, black if all do, a colour if they differ. With fewer seeds it is drawn in grey.
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
    """The kept heads, (sets, layers, heads), one set after another; nan where there is no head."""
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
