"""The card of a saved model, README.md: which heads are left out, how they were chosen, and what loads it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.models.export import structure
from headspec.numbers import plain
from headspec.progress import log

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILE = "README.md"
#: the last line of a card, by which `write` knows that nobody has changed it
SEAL = "<!-- written by headspec.save, {} -->\n"
#: names of the hub, as opposed to folders
HUB = r"[\w.-]+/[\w.-]+"
#: what the orders of a curve close
ORDERS = {"none": "no heads", "top": "the most important", "bottom": "the least important",
          "random": "random", "all": "all heads"}  # fmt: skip


def write(
    model: PreTrainedModel, folder: Path, score: str | None = None, curve: pd.DataFrame | None = None
) -> None:
    """Write the card of a model next to it; keep a card that headspec did not write, or that was edited.

    Parameters
    ----------
    model : as saved in `folder`
    score : name of the score by which heads were chosen
    curve : from `headspec.head_curve`, of the model with all heads
    """
    from huggingface_hub import ModelCard, ModelCardData

    path = folder / FILE
    if path.exists() and not _is_sealed(path.read_text(encoding="utf-8", errors="replace")):
        log.warning(
            "%s: kept unchanged, because headspec.save has not written it; it may describe other heads", path
        )
        return
    config, base = model.config, str(model.config.name_or_path)
    data = ModelCardData(
        base_model=base if re.fullmatch(HUB, base) and not Path(base).exists() else None,
        library_name="headspec",
        tags=[config.model_type, "attention-heads"],
    )
    body = "\n\n".join(_parts(model, folder.resolve().name, data.base_model, score, curve))
    text = str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{body}\n"))
    text = text.rstrip("\n") + "\n\n"
    path.write_text(text + SEAL.format(_digest(text)), encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_sealed(text: str) -> bool:
    """Return whether a card is as `write` wrote it."""
    body, _, _ = text.rpartition("<!--")
    return text == body + SEAL.format(_digest(body))


def _parts(
    model: PreTrainedModel, name: str, base: Any, score: str | None, curve: pd.DataFrame | None
) -> Iterator[str]:
    """Yield the paragraphs of a card."""
    found = structure.of(model.config)
    kept, totals = found.get("kept_heads", {}), found.get("heads", {})
    known = kept.keys() <= totals.keys()
    removed = {
        attention: sorted({*range(totals[attention])}.difference(own)) if known else []
        for attention, own in kept.items()
    }
    n_removed = sum(map(len, removed.values()))
    yield f"# {name}"
    what = "with all of its attention heads"
    if n_removed:
        what = f"without {n_removed} of its {sum(totals.values())} attention heads"
    elif not known:
        what = f"with {sum(map(len, kept.values()))} of its attention heads"
    of = f", made from [{base}](https://huggingface.co/{base})" if base else ""
    yield f"A `{type(model).__name__}` {what}{of}."
    yield "## How to load it"
    yield f'```python\nimport headspec  # pip install headspec\n\nmodel = headspec.load("{name}")\n```'
    yield (
        "`headspec.load` accepts the folder, or the name of its repository on the hub. `from_pretrained` of "
        + (
            "transformers alone cannot read it: the config has no numbers for the heads that are left."
            if found.get("modules")
            else "transformers reads it, too."
        )
    )
    if n_removed or not known:
        listed = removed if known else kept
        yield "## Removed heads" if known else "## Heads that are left"
        chosen = f"Chosen by the score `{score}`; l" if score else "L"
        yield f"{chosen}ayers and heads are numbered from 0, as in the whole model."
        yield "\n".join(
            f"- `{attention}`: {', '.join(map(str, own))}" + " (all)" * (known and not kept[attention])
            for attention, own in listed.items()
            if own
        )
    if curve is not None:
        yield "## Before and after"
        yield from _curve(curve)


def _curve(curve: pd.DataFrame) -> Iterator[str]:
    """Yield the curve of the model with all heads, as a table."""
    examples = f", {curve.attrs['n']} examples" if "n" in curve.attrs else ""
    yield f"The model without some of its heads{examples}; in brackets: interval, 95 % by default."
    rows = [
        f"| {ORDERS[row['order']]} | {row['heads']} | {plain(row['value'], 3)} "
        f"[{plain(row['low'], 3)}, {plain(row['high'], 3)}] |"
        for row in curve.to_dict("records")
    ]
    yield "\n".join(
        ["| closed heads | number | " + curve.attrs.get("metric", "value") + " |", "|---|---|---|", *rows]
    )
