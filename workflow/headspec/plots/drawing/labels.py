"""Names beside points, placed so that they cover neither each other nor anything else drawn."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: candidate places of a name: distance from the point in points, direction in degrees; best first
DISTANCES = (3.5, 7.0, 12.0, 18.0, 25.0)
DIRECTIONS = (35, 145, -35, -145, 0, 180, 90, -90, 60, 120, -60, -120)
#: half the side of the square kept clear around a point, in points
POINT = 2.2


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Area that each of `boxes` (n, 4) shares with all of `others` (m, 4); a box is x0, y0, x1, y1."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.clip(high - low, 0, None).prod(axis=-1).sum(axis=1)


def name_points(axes: Axes, points: Floats, names: Sequence[str], avoid: Floats) -> None:
    """Write a name beside each of `points` (n, 2), the most crowded first, at the best place still free.

    The figure must have its final layout and limits. A thin line joins a name to its point unless they are
    close. If no place is free, the name goes where it covers least. `avoid` (m, 4) are boxes to keep clear,
    such as intervals: two opposite corners, in data units like the points.
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
