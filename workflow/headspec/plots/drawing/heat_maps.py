"""Heat maps of heads: a row for each layer, grouped by kind of attention, and a column for each head."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.head_arrays import Layers, existing, first_rows
from headspec.plots.drawing.style import SHADES, SIGNED

MISSING = "0.85"  # grey, for heads that do not exist
#: maximum number of layers of a kind that are numbered
NUMBERED = 4


def number_layers(axes: Axes, attention: Layers | None) -> None:
    """Number the layers at the side of a map of heads, starting at 0 for every kind of attention."""
    if not attention:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        return
    ticks = [
        (first + layer, str(layer))
        for kind, first in first_rows(attention).items()
        for layer in range(0, attention[kind], -(-attention[kind] // NUMBERED))
    ]
    places, names = zip(*ticks, strict=True)
    axes.set_yticks(places, names)


def shade_gaps(axes: Axes, exists: NDArray[np.bool_]) -> None:
    """Shade the cells of a map without a head, where the image is transparent (nan)."""
    if not exists.all():
        axes.patch.set(facecolor=MISSING, hatch="/////", edgecolor="white", linewidth=0)


def layer_name(row: int, attention: Layers | None) -> str:
    """Return the number of a layer, after its kind of attention if there are several."""
    if not attention:
        return str(row)
    kind, first = [each for each in first_rows(attention).items() if each[1] <= row][-1]
    return f"{kind} {row - first}"


def divide(axes: Axes, attention: Layers | None, named: bool) -> None:
    """Draw lines between the kinds of attention in a map of heads, with names on the right if `named`."""
    for kind, first in first_rows(attention or {}).items():
        if first:
            edge = [withStroke(linewidth=4, foreground="white")]  # between black squares, too
            axes.axhline(first - 0.5, color="black", linewidth=1.5, path_effects=edge)
        if named:
            middle = first + ((attention or {})[kind] - 1) / 2
            axes.text(
                1.02, middle, kind, transform=axes.get_yaxis_transform(), rotation=270, va="center",
                ha="left", fontsize="small",
            )  # fmt: skip


def heat_map(scores: Any, outlined: Any = None, axes: Axes | None = None, label: str = "score") -> Axes:
    """Draw a heat map of heads with a colour bar, and return its axes.

    Parameters
    ----------
    scores : (layers, heads), nan where there is no head, drawn grey; values below zero are orange
    outlined : heads to outline, optional: bool (layers, heads), such as `top_heads(scores, 0.1)`,
        ``{layer: [heads]}``, or pairs (layer, head)
    axes : matplotlib axes, optional; by default those of a new figure
    label : label of the colour bar: what the scores are, with their unit

    Raises
    ------
    ValueError
        `scores` are not (layers, heads), or all are nan; or `outlined` names heads that do not exist.

    Examples
    --------
    >>> headspec.heat_map(scores, headspec.top_heads(scores, 0.1), label="mean |dL/dgate|")
    """
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots()
    scores = head_arrays.scores(scores)
    if not (exists := existing(scores)).any():
        raise ValueError(f"scores: all {exists.size} are nan, expected a score of at least one head")
    if outlined is not None:
        outlined = head_arrays.mask(outlined, exists, "outlined")
    largest = float(np.nanmax(np.abs(scores)))
    signed = bool(np.nanmin(scores) < 0)
    image = draw_heads(axes, scores, outlined, largest=largest, signed=signed)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    bar = axes.figure.colorbar(image, ax=axes)
    bar.outline.set_visible(False)
    bar.set_label(label)
    return axes


def draw_heads(
    axes: Axes,
    scores: NDArray[np.floating],
    outlined: NDArray[np.bool_] | None = None,
    attention: Layers | None = None,
    *,
    largest: float = 1.0,
    signed: bool = False,
    line_width: float = 0.9,
) -> AxesImage:
    """Draw the squares of heads, (layers, heads), without labels of axes, and return their image.

    `largest` is the score of the darkest colour; `line_width`, of outlines, is in points.
    """
    shades = (SIGNED if signed else SHADES).with_extremes(bad=MISSING)
    least = -largest if signed else 0.0
    image = axes.imshow(scores, cmap=shades, vmin=least, vmax=largest, aspect="auto", origin="lower")
    for layer, head in np.argwhere(outlined) if outlined is not None else ():
        axes.add_patch(Rectangle((head - 0.5, layer - 0.5), 1, 1, fill=False, linewidth=line_width))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    number_layers(axes, attention)
    return image
