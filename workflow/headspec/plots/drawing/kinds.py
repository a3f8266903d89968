"""Rows of maps of heads: the layers of each kind of attention, and places without a head."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from headspec.attention import Layers, first_rows

MISSING = "0.85"  # grey, of heads that do not exist
#: numbered layers of a kind, at most
NUMBERED = 4


def number_layers(axes: Axes, attention: Layers | None) -> None:
    """Number the layers at the side of a map of heads, from 0 for every kind of attention."""
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
    """Shade the places of a map that have no head, where its picture is transparent (nan)."""
    if not exists.all():
        axes.patch.set(facecolor=MISSING, hatch="/////", edgecolor="white", linewidth=0)


def layer_name(row: int, attention: Layers | None) -> str:
    """Number of a layer, after its kind of attention if there are several."""
    if not attention:
        return str(row)
    kind, first = [each for each in first_rows(attention).items() if each[1] <= row][-1]
    return f"{kind} {row - first}"


def divide(axes: Axes, attention: Layers | None, named: bool) -> None:
    """Draw lines between the kinds of attention in a map of heads, their names at the right if `named`."""
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
