"""Which heads of a model a table of examples needs: printed, and as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headspec.errors import ConfigError, DataError, HeadspecError, ModelError
from headspec.heads.any_model.curves.curve import head_curve
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.ranking import prune_count, ranked_heads
from headspec.models.export.keeping import load
from headspec.pipeline.commands.from_files import examples
from headspec.plots.drawing import page

#: of heads that are closed, where these are one or more
FRACTIONS = (0.1, 0.2, 0.3, 0.5)
#: heads that are printed
PRINTED = 10
ABOUT = (
    "Importance: mean absolute derivative of the loss with respect to a factor on the head's output. The "
    "curve closes heads that one half of the examples ranks, and evaluates the other half; bands are 95 % "
    "intervals. The map outlines a tenth of heads."
)


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
    parts = {"Curve": curve, "Map": scores, "All heads, ranked": ranked}
    page.write_page(out, parts, f"Heads of {model} on {data}", f"{what}. {ABOUT}")
    first = ranked.head(PRINTED).to_string(index=False, float_format="{:.3g}".format)
    return f"{what}\n\n{first}\n\n{out}: all heads, curve and map"


def _metric(given: examples.TableExamples, model: Any) -> Any:
    """Return the metric of the curve; None for the loss."""
    if given.what == examples.WORDS:
        return examples.right_words
    return "accuracy" if given.type == "classification" and model.config.num_labels > 1 else None
