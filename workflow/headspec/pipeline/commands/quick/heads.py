"""Which heads of a model a table of examples needs: printed, and as one page."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.errors import ConfigError, DataError, HeadspecError, ModelError
from headspec.heads.any_model.curves.curve import head_curve
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.ranking import prune_count, ranked_heads, top_heads
from headspec.models.export.keeping import load
from headspec.pipeline.commands.quick import examples
from headspec.plots.curves import plot_curve
from headspec.plots.drawing.heat_maps import heat_map

#: of heads that are closed, where these are one or more
FRACTIONS = (0.1, 0.2, 0.3, 0.5)
#: heads that are printed, and the share of them that the map outlines
PRINTED, OUTLINED = 10, 0.1


def write_page(model: str, data: str, out: Path) -> str:
    """Write a page on the heads of `model` that `data` needs, and return the first ones as text.

    Raises HeadspecError if `out` exists, or model and data do not fit.
    """
    from transformers import AutoTokenizer

    if out.exists():
        raise ConfigError(f"{out}: already exists; choose another name by --out")
    given = examples.read(data)
    try:
        with_head = load(model)
        more = {"add_prefix_space": True} if given.what == examples.WORDS else {}
        arguments = examples.arguments(given, with_head, AutoTokenizer.from_pretrained(model, **more))
        scores = head_importance(with_head, **arguments)
        n_heads = int(np.isfinite(scores).sum())
        fractions = [each for each in FRACTIONS if prune_count(each, n_heads)]
        curve = head_curve(with_head, metric=_metric(given, with_head), fractions=fractions, **arguments)
        if given.what == examples.WORDS:
            curve.attrs["metric"] = "right words"
    except (OSError, ValueError, DataError, ModelError) as error:  # also of transformers and of the functions
        raise HeadspecError(f"{model} on {data}: {error}") from None
    ranked = ranked_heads(scores)
    what = f"{given.n} examples: {given.what}"
    with out.open("x", encoding="utf-8") as file:
        file.write(_page(f"Heads of {model} on {data}", what, ranked, curve, scores))
    first = ranked.head(PRINTED).to_string(index=False, float_format="{:.3g}".format)
    return f"{what}\n\n{first}\n\n{out}: all heads, curve and map"


def _metric(given: examples.Examples, model: Any) -> Any:
    """Return the metric of the curve; None for the loss."""
    if given.what == examples.WORDS:
        return examples.right_words
    return "accuracy" if given.type == "classification" and model.config.num_labels > 1 else None


def _page(title: str, what: str, ranked: pd.DataFrame, curve: pd.DataFrame, scores: Any) -> str:
    pictures = [_svg(lambda axes: plot_curve(curve, axes))]
    pictures.append(_svg(lambda axes: heat_map(scores, top_heads(scores, OUTLINED), axes, "importance")))
    table = ranked.to_html(index=False, float_format="{:.3g}".format, border=0)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "svg{max-width:100%;height:auto}td,th{padding:.1rem 1rem .1rem 0;text-align:right}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(what)}. Importance: mean absolute derivative of the loss with "
        "respect to a factor on the head's output. The curve closes heads that one half of the examples "
        "ranks, and evaluates the other half; bands are 95 % intervals. The map outlines a tenth of heads."
        f"</p><h2>Curve</h2>{pictures[0]}<h2>Map</h2>{pictures[1]}<h2>All heads, ranked</h2>{table}</html>\n"
    )


def _svg(draw: Any) -> str:
    """Return a figure as an element of a page."""
    figure, text = Figure(figsize=(6.4, 4), layout="constrained"), io.StringIO()
    draw(figure.subplots())
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]
