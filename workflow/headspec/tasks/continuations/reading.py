"""Pairs of continuations, of which a language model should find the first likelier."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.config.as_text import as_text
from headspec.data.sources import columns
from headspec.errors import DataError, listing
from headspec.tasks.continuations import pair_types

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


def rows(frame: pd.DataFrame, texts: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
    """The pairs of a split: `texts`, with the label that says what their continuations are.

    Parameters
    ----------
    frame : the stored columns
    texts : columns text_a and text_b; of minimal pairs the continuations themselves

    Returns
    -------
    DataFrame
        Columns text_a, text_b; label: of answer pairs the right and the wrong answer, as `answers` reads
        them, else empty.

    Raises
    ------
    DataError
        A continuation is empty, or both of an example are the same.
    """
    if task.type == pair_types.TEXTS:
        names, pairs = [task.text_a, str(task.text_b)], texts[["text_a", "text_b"]]
        label = pd.Series("", index=texts.index)
    else:
        names = list(task.label)
        for name in names:
            columns.check_plain(frame[name], f"{key}.label", where)
        # spaces before an answer are its own, so that text stays as it is
        pairs = frame[names].map(lambda value: value if isinstance(value, str) else as_text(value))
        pairs = pairs.where(frame[names].notna(), "")
        written = [json.dumps(pair, ensure_ascii=False) for pair in pairs.to_numpy().tolist()]
        label = pd.Series(written, index=frame.index)
    empty = (pairs.map(str.strip) == "").any(axis=1)
    same = pairs.iloc[:, 0] == pairs.iloc[:, 1]
    if (wrong := empty | same).any():
        row: Any = wrong.idxmax()
        found = "an empty text" if empty[row] else "the same text"
        raise DataError(
            f"{key}: row {row + 1} of {where} has {found} in {listing(names)}, expected two that differ "
            f"({wrong.sum()} of {len(wrong)} rows)"
        )
    return texts.assign(label=label)


def answers(label: str) -> list[str]:
    """The right and the wrong answer of an example."""
    return [str(answer) for answer in json.loads(label)]
