"""Markers for seeds, pairs of tasks and values at chance, and labels beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from headspec.numbers import number
from headspec.per_example import labels_and_predictions
from headspec.plots.drawing.style import key
from headspec.statistics.chance import SAYS, learnt_nothing, marks, reversed_labels

#: a single seed
DOT: dict[str, Any] = {
    "label": "one seed",
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.4,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.5,
}
#: style of a mark, outlined in white so that no line hides it
_MARK: dict[str, Any] = {
    "linestyle": "none",
    "color": "black",
    "zorder": 5,
    "path_effects": [withStroke(linewidth=2.5, foreground="white")],
}
#: style of each mark
MARKED: dict[str, dict[str, Any]] = {
    "†": _MARK | {
        "label": f"{SAYS['†']}: D means little", "marker": r"$\dagger$", "markersize": 5,
        "markeredgewidth": 0.3,
    },
    "×": _MARK | {
        "label": f"{SAYS['×']}: D counts for nothing", "marker": "x", "markersize": 4, "markeredgewidth": 1,
    },
    "↓": _MARK | {
        "label": f"{SAYS['↓']}: D counts for nothing", "marker": r"$\downarrow$", "markersize": 6,
        "markeredgewidth": 0.3,
    },
}  # fmt: skip


def mark_chance(axes: Axes, results: pd.DataFrame, ys: NDArray[Any]) -> None:
    """Mark the rows of a table (at `ys`) whose models are at chance, at the right of `axes`."""
    found = marks(results).to_numpy()
    for mark, look in MARKED.items():
        marked = found == mark
        if n := np.count_nonzero(marked):
            x = np.full(n, 1.03)
            axes.plot(x, ys[marked], transform=axes.get_yaxis_transform(), clip_on=False, **look)


#: whether the tasks of a pair share the input paradigm: (legend entry, style)
PARADIGMS: dict[bool, tuple[str, dict[str, Any]]] = {
    True: ("same input paradigm", {"marker": "o", "color": "#332288"}),
    False: ("different paradigms", {"marker": "D", "color": "#cc6677", "markersize": 3}),
}
#: a pair with a task at chance
AT_CHANCE = "hollow: at chance, D means little"
HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 0.8, "label": AT_CHANCE}
#: a pair left out of correlations
LEFT_OUT = "crossed: unpruned model at chance, left out"
CROSSED = {"marker": "x", "color": "0.4", "label": LEFT_OUT}


def draw_points(axes: Axes, pairs: pd.DataFrame, result: pd.Series) -> None:
    """Draw a point for each of `pairs`, rows of `paired`, and the least-squares line if defined."""
    left_out = pairs["left_out"].to_numpy()
    if left_out.any():
        _dots(axes, pairs[left_out], CROSSED)
    pairs = pairs[~left_out]
    for same, (label, look) in PARADIGMS.items():
        group = pairs[pairs["same_paradigm"] == same]
        if len(group):
            _dots(axes, group[~group["at_chance"]], look | {"label": label})
        if group["at_chance"].any():
            _dots(axes, group[group["at_chance"]], look | HOLLOW)
    if pd.notna(result["slope"]):
        ends = np.array([pairs["similarity"].min(), pairs["similarity"].max()])
        line = 100 * (result["intercept"] + result["slope"] * ends)
        axes.plot(ends, line, color="0.35", linewidth=0.8, zorder=1, label="least squares")


def _dots(axes: Axes, pairs: pd.DataFrame, look: dict[str, Any]) -> None:
    axes.plot(pairs["similarity"], 100 * pairs["dissociation"], linestyle="none", **look)


def correlation_text(
    result: pd.Series, p_name: str = "p", r: str = "pearson_r", p_of: str = "p_mantel"
) -> str:
    """Return a correlation and its permutation p-value as text, from the columns `r` and `p_of`."""
    if pd.isna(result[r]):
        return "r undefined"
    p = result[p_of]
    return f"r = {number(result[r])}, {p_name} {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"


Floats = NDArray[np.float64]

#: candidate positions of a label: distance from its point in points, direction in degrees; best first
DISTANCES = (3.5, 7.0, 12.0, 18.0, 25.0)
DIRECTIONS = (35, 145, -35, -145, 0, 180, 90, -90, 60, 120, -60, -120)
#: half the side of the square kept clear around a point, in points
POINT = 2.2


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Return the area (n,) of `boxes` (n, 4) that `others` (m, 4) overlap; a box is x0, y0, x1, y1."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    areas: Floats = np.clip(high - low, 0, None).prod(axis=-1).sum(axis=1)
    return areas


def name_points(axes: Axes, points: Floats, names: Sequence[str], avoid: Floats) -> None:
    """Write a label beside each of `points` (n, 2), the most crowded first, at the best free position.

    The figure must have its final layout and limits. A thin line joins a label to its point unless they are
    close. If no position is free, the label goes where it covers least. `avoid` (m, 4) are boxes to keep
    clear, such as intervals: two opposite corners, in data units like the points.
    """
    scale = axes.figure.dpi / 72  # pixels per point
    centres = axes.transData.transform(points) / scale
    ends = axes.transData.transform(avoid.reshape(-1, 2)).reshape(-1, 2, 2) / scale
    spans = np.hstack([ends.min(axis=1), ends.max(axis=1)])
    outwards = np.array([-1, -1, 1, 1])
    obstacles = np.concatenate([np.hstack([centres, centres]) + POINT * outwards, spans + 0.8 * outwards])
    frame = np.array([axes.get_window_extent().extents]) / scale
    directions = np.deg2rad(DIRECTIONS)
    distances = np.linalg.norm(centres[:, None] - centres, axis=-1)
    for index in np.argsort(-(distances < 20).sum(axis=1), kind="stable"):
        text = axes.annotate(
            names[index], points[index], (0, 0), textcoords="offset points", fontsize="small", zorder=4,
            ha="center", va="center", path_effects=[withStroke(linewidth=1.5, foreground="white")],
        )  # fmt: skip
        text.set_in_layout(False)
        half = np.array(text.get_window_extent().size) / scale / 2
        reach = np.array(DISTANCES)[:, None, None] + half
        offsets = (np.stack([np.cos(directions), np.sin(directions)], axis=-1) * reach).reshape(-1, 2)
        middles = centres[index] + offsets
        boxes = np.hstack([middles - half, middles + half])
        outside = np.prod(2 * half) - _overlap(boxes, frame)
        best = int(np.argmin(np.round(_overlap(boxes, obstacles) + 4 * outside, 2)))
        text.set_position(offsets[best])
        obstacles = np.vstack([obstacles, boxes[best]])
        if best >= len(directions):
            edge = middles[best] - np.clip(offsets[best], -half, half)
            line = axes.transData.inverted().transform(np.stack([centres[index], edge]) * scale)
            axes.add_line(Line2D(*line.T, color="0.5", linewidth=0.4, zorder=1.5))


def unlearnt(predictions: Mapping[int, pd.DataFrame], metrics: Mapping[str, str]) -> dict[str, str]:
    """Return the tasks that the unpruned model has not learnt in some seed, each with its mark."""
    rows = [
        {"task": str(task), "unpruned_at_chance": learnt_nothing(metrics[str(task)], *of),
         "below_chance": reversed_labels(metrics[str(task)], *of)}
        for table in predictions.values()
        for task, own in table[table["pruned_for"] == "none"].groupby("task")
        for of in [labels_and_predictions(own)]
    ]  # fmt: skip
    seeds = pd.DataFrame(rows, columns=["task", "unpruned_at_chance", "below_chance"]).groupby("task")
    found = marks(seeds.agg({"unpruned_at_chance": "any", "below_chance": "all"}))
    return {str(task): str(mark) for task, mark in found.items() if mark}


def marked(task: str, nothing: Mapping[str, str]) -> str:
    """Return the name of a task, with its mark in `nothing`, if any."""
    return f"{task} {nothing[task]}" if task in nothing else task


def name_mark(axes: Axes, nothing: Mapping[str, str]) -> None:
    """Add the marks of tasks to the legend."""
    for mark in sorted({*nothing.values()}):
        look = {name: MARKED[mark][name] for name in ("marker", "markersize", "color", "linestyle")}
        key(axes, f"after a task: {SAYS[mark]}", **look)
