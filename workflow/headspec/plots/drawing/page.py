"""One HTML file with curves, maps and tables of heads."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.figure import Figure

from headspec.heads.ranking import top_heads
from headspec.plots.curves import plot_curve
from headspec.plots.drawing.heat_maps import heat_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: share of heads that maps outline
OUTLINED = 0.1
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "svg{max-width:100%;height:auto}td,th{padding:.1rem 1rem .1rem 0;text-align:right}"
)


def write_page(
    path: str | os.PathLike[str], parts: Mapping[str, Any], title: str = "Heads", about: str = ""
) -> None:
    """Write curves, maps and tables to one HTML file, which needs no other.

    Parameters
    ----------
    path : of the file, which is replaced
    parts : by heading: a curve of `head_curve` or `recovery`, drawn by `plot_curve`; scores (layers, heads),
        of which `heat_map` outlines a tenth; or another table
    title : of the page
    about : a paragraph below the title

    Raises
    ------
    ValueError
        A part is neither a table nor scores (layers, heads) of at least one head.

    Examples
    --------
    >>> headspec.write_page("heads.html", {"Curve": curve, "Map": scores, "Heads": ranked_heads(scores)})
    """
    shown = "".join(f"<h2>{escape(heading)}</h2>{_element(heading, part)}" for heading, part in parts.items())
    Path(path).write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1><p>{escape(about)}</p>{shown}</html>\n",
        encoding="utf-8",
    )


def _element(heading: str, part: Any) -> str:
    if not isinstance(part, pd.DataFrame):
        try:
            outlined = top_heads(part, OUTLINED)
        except ValueError as error:
            raise ValueError(f"parts: '{heading}' is neither a table nor {error}") from None
        return _svg(lambda axes: heat_map(part, outlined, axes))
    if {"order", "fraction", "value", "low", "high"} <= {*part}:
        return _svg(lambda axes: plot_curve(part, axes))
    return part.to_html(index=False, float_format="{:.3g}".format, border=0)


def _svg(draw: Callable[[Axes], Any]) -> str:
    """Return a figure as an element of a page."""
    figure, text = Figure(figsize=(6.4, 4), layout="constrained"), io.StringIO()
    draw(figure.subplots())
    figure.savefig(text, format="svg", metadata={"Date": None})
    return "".join(text.getvalue().partition("<svg")[1:])
