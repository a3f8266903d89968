"""Which heads of a model a table of examples needs: printed, and as one page."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.config.values import as_text
from headspec.data.sources.columns import matching
from headspec.errors import ConfigError, DataError, HeadspecError, listing
from headspec.heads.any_model.curve import head_curve
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.ranking import ranked_heads, top_heads
from headspec.models.export.keeping import load
from headspec.pipeline.commands.quick import found, stored
from headspec.plots.curves import plot_curve
from headspec.plots.drawing.heat_maps import heat_map

#: most examples, evenly spaced in the table
MOST = 400
#: heads that are printed, and the share of them that the map outlines
PRINTED, OUTLINED = 10, 0.1
#: types of tasks with a label for each text
TYPES = ("classification", "regression")


def examples(data: str) -> dict[str, Any]:
    """Return prompts and answers, or texts (or pairs of them) and labels, of a table."""
    keys: dict[str, Any] = {}
    held = stored.training_files(data) if Path(data).exists() else None
    table = stored.columns(held, data, stored.dialect(held, data)) if held else pd.DataFrame()
    asked = [matching(name, [*map(str, table)]) for name in ("prompt", "answer")]
    if not all(asked):
        keys = found.find(data).keys
        reading: dict[str, Any] = {key: keys[key] for key in ("delimiter", "columns") if key in keys}
        held = stored.training_files(keys["source"])
        if held.layout != "tables" or keys["type"] not in TYPES:
            raise DataError(
                f"{data}: holds a task of type {keys['type']} in {held.name}, expected a table of texts and "
                "labels, or with the columns prompt and answer"
            )
        table = stored.columns(held, keys["source"], reading)
    names = [str(name) for name in asked if name] if all(asked) else [keys["text_a"], keys["label"]]
    full = table[(table[names].notna() & (table[names].astype(str) != "")).all(axis=1)]
    full = full.iloc[np.linspace(0, len(full) - 1, min(MOST, len(full))).astype(int)]
    first, second = (full[name].tolist() for name in names)
    if all(asked):
        return {
            "prompts": first,
            "answers": [answer if isinstance(answer, str) else as_text(answer) for answer in second],
        }
    texts = list(zip(first, full[keys["text_b"]], strict=True)) if "text_b" in keys else first
    return {"texts": texts, "labels": second}


def write_page(model: str, data: str, out: Path) -> str:
    """Write a page on the heads of `model` that `data` needs, and return the first ones as text.

    Raises HeadspecError if `out` exists, or model and data do not fit.
    """
    from transformers import AutoTokenizer

    if out.exists():
        raise ConfigError(f"{out}: already exists; expected another name, by --out")
    given = examples(data)
    try:
        tokenizer, with_head = AutoTokenizer.from_pretrained(model), load(model)
        if "labels" in given:
            known = with_head.config.label2id or {}
            given["labels"] = [label if label in known else _number(label) for label in given["labels"]]
        metric = "accuracy" if "labels" in given and with_head.config.num_labels > 1 else None
        scores = head_importance(with_head, tokenizer=tokenizer, **given)
        curve = head_curve(with_head, tokenizer=tokenizer, metric=metric, **given)
    except (OSError, ValueError) as error:  # of transformers and of the functions
        raise HeadspecError(f"{model} on {data}: {error}") from None
    ranked = ranked_heads(scores)
    n = len(next(iter(given.values())))
    what = f"{n} examples: {listing(given)}"
    with out.open("x", encoding="utf-8") as file:
        file.write(_page(f"Heads of {model} on {data}", what, ranked, curve, scores))
    first = ranked.head(PRINTED).to_string(index=False, float_format="{:.4f}".format)
    return f"{what}\n\n{first}\n\n{out}: all heads, curve and map"


def _number(label: Any) -> Any:
    """Return a label that is written as a number as one."""
    number = pd.to_numeric(label, errors="coerce")
    return label if pd.isna(number) else float(number) if number % 1 else int(number)


def _page(title: str, what: str, ranked: pd.DataFrame, curve: pd.DataFrame, scores: Any) -> str:
    pictures = [_svg(lambda axes: plot_curve(curve, axes))]
    pictures.append(_svg(lambda axes: heat_map(scores, top_heads(scores, OUTLINED), axes, "importance")))
    table = ranked.to_html(index=False, float_format="{:.4f}".format, border=0)
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
