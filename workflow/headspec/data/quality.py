"""Rows that are of little use: empty, repeated or contradictory ones, and those that a model sees cut.

Such rows are dropped and counted when a task is prepared. Many of them are a sign of a wrong column or a
broken export, so they earn a warning before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.data import splits
from headspec.errors import listing

if TYPE_CHECKING:
    from headspec.config.study import Study
    from headspec.data.planned import Planned
    from headspec.data.prepare import Source

#: Share of rows that is many. Of twelve public sets (GLUE without WNLI, AG News, TREC, BBC News, Rotten
#: Tomatoes), none has empty rows; at most 0.6 % contradict another (CoLA), and 4.5 % repeat one (BBC News).
MANY = 0.1
#: Share of rows with more words than a model takes tokens. At 128 tokens it is 3 % in RTE and below 1 % in
#: the other sets of GLUE, but nearly all of BBC News.
MOST = 0.5
KINDS = {
    "empty": "have an empty text",
    "repeated": "repeat the text and label of another row",
    "contradictory": "contradict another row with the same text",
}


def doubts(frame: pd.DataFrame) -> dict[str, Any]:
    """What is doubtful in the rows of a split.

    Parameters
    ----------
    frame : columns text_a, text_b, label; the index has the positions of rows in the source

    Returns
    -------
    dict
        rows: their number; of each of `KINDS`, the number of rows and the first of them, from 1; words: their
        number in rows at 100 evenly spaced places of the order by it. All of it can be written as JSON.
    """
    normal = splits.normal(frame)
    empty = (frame["text_a"].str.strip() == "") | (frame["text_b"].str.strip() == "")
    full, label = normal[~empty], frame["label"][~empty]
    contradictory = label.groupby(full).transform("nunique") > 1
    repeated = pd.DataFrame({"text": full, "label": label}).duplicated()
    words = np.sort(full.str.count("[ \t]").to_numpy(dtype=int) + 1)
    words = words[((np.arange(100) + 0.5) / 100 * len(words)).astype(int)] if len(words) else words
    found: dict[str, Any] = {"rows": len(frame)}
    found["empty"] = [int(empty.sum()), _numbers(frame.index[empty][:1])]
    found["repeated"] = [int(repeated.sum()), _pair(repeated, full, label, same=True)]
    found["contradictory"] = [int(contradictory.sum()), _pair(contradictory, full, label, same=False)]
    return found | {"words": words.tolist()}


def _pair(wrong: pd.Series, text: pd.Series, label: pd.Series, same: bool) -> list[int]:
    """Numbers of the first wrong row and of another of its text, with the same label or another one."""
    if not wrong.any():
        return []
    row: Any = wrong.idxmax()
    alike = (text == text[row]) & ((label == label[row]) == same)
    return _numbers(sorted({row, next(other for other in alike.index[alike] if other != row)}))


def _numbers(rows: Any) -> list[int]:
    return [int(row) + 1 for row in rows]


def warnings(study: Study, plan: Planned) -> list[str]:
    """One line for each doubt about the tasks of a study that planning can read."""
    lines = [line for name, source in plan.sources.items() for line in of_source(name, source)]
    return lines + [line for name in study.models for line in _cut(study, name, plan)]


def of_source(name: str, source: Source) -> Iterator[str]:
    """One line for each doubt about the rows of a task."""
    found = {"training rows": source.train, "validation rows": source.validation}
    found |= {f"rows of {other}": split for other, split in source.further.items()}
    for rows, split in found.items():
        for kind, words in KINDS.items():
            n, first = split.doubts.get(kind, (0, []))
            if n and n >= MANY * split.doubts["rows"]:
                share = f"{n / split.doubts['rows']:.0%}".replace("%", " %")
                at = f"row {first[0]}" if len(first) == 1 else f"rows {first[0]} and {first[1]}"
                yield f"tasks.{name}: {share} of {split.doubts['rows']} {rows} {words}; first at {at}"


def _cut(study: Study, model: str, plan: Planned) -> Iterator[str]:
    """A line if most rows of tasks have more words, and so more tokens, than a model takes."""
    length = study.models[model].max_length
    shares = {name: _longer(source, length) for name, source in plan.sources.items()}
    if cut := [f"{share} % of tasks.{name}" for name, share in shares.items() if share >= 100 * MOST]:
        yield (
            f"models.{model}.max_length: {length} tokens, but more words in {listing(cut)}; "
            "the model sees only the beginning of these rows"
        )


def _longer(source: Source, length: int) -> int:
    """Percentage of training rows with more words than `length`."""
    words = np.array(source.train.doubts.get("words", []))
    return round(100 * float((words > length).mean())) if len(words) else 0
