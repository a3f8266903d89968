"""Warnings before a run about empty, repeated, contradictory and overlong rows: signs of wrong columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.errors import listing
from headspec.tasks.data import Data

#: Share of rows that deserves a warning. None of twelve public sets (GLUE without WNLI, AG News, TREC, BBC
#: News, Rotten Tomatoes) has empty rows; at most 0.6 % contradict (CoLA), 4.5 % repeat another (BBC News).
MANY = 0.1
#: Share of rows with more words than the model's tokens. At 128 tokens it is 3 % in RTE and below 1 % in the
#: other sets of GLUE, but nearly 100 % in BBC News.
MOST = 0.5
KINDS = {
    "empty": "have an empty text",
    "repeated": "repeat the text and label of another row",
    "contradictory": "contradict another row with the same text",
    "otherwise": "repeat the text of another row with another label",
}
#: maximum number of classes whose rows are counted
CLASSES = 100


def rows_of(split: str) -> str:
    """Return the term in messages for the rows of a split: train, validation, or a further one."""
    return {"train": "training rows", "validation": "validation rows"}.get(split, f"rows of {split}")


def summary(frame: pd.DataFrame, normal: pd.Series, task: Data, names: Iterable[str] = ()) -> dict[str, Any]:
    """Return statistics on the rows of a split, for JSON; `normal` is `splits.normalised` of `frame`.

    They are `rows`; for each of `KINDS` the number of rows and, from 1, the place of the first, with that of
    a row that it repeats or contradicts; `words`, 100 quantiles of the number of words; `classes`, the number
    of rows of the most frequent of `names`; and entries added by `Data.row_quality`.
    """
    empty = (frame["text_a"].str.strip() == "") | (frame["text_b"].str.strip() == "")
    full, label = normal[~empty], frame["label"][~empty]
    contradictory = task.claims(label).groupby(full).transform("nunique") > 1
    repeated = pd.DataFrame({"text": full, "label": label}).duplicated()
    otherwise = full.duplicated() & ~repeated & ~contradictory
    words = np.sort([text.count(" ") + text.count("\t") + 1 for text in full])
    words = words[((np.arange(100) + 0.5) / 100 * len(words)).astype(int)] if len(words) else words
    counts: dict[str, Any] = {"rows": len(frame)}
    counts["empty"] = [int(empty.sum()), _numbers(frame.index[empty][:1])]
    counts["repeated"] = [int(repeated.sum()), _pair(repeated, full, label, same=True)]
    counts["contradictory"] = [int(contradictory.sum()), _pair(contradictory, full, label, same=False)]
    counts["otherwise"] = [int(otherwise.sum()), _pair(otherwise, full, label, same=False)]
    if names := {*names}:
        usual = task.tally(frame["label"]).most_common()
        counts["classes"] = dict([(name, n) for name, n in usual if name in names][:CLASSES])
    return counts | {"words": words.tolist()} | task.row_quality(frame[~empty])


def _pair(wrong: pd.Series, text: pd.Series, label: pd.Series, same: bool) -> list[int]:
    """Return numbers of the first wrong row and of another with its text, and the same or another label."""
    if not wrong.any():
        return []
    row: Any = wrong.idxmax()
    alike = (text == text[row]) & ((label == label[row]) == same)
    return _numbers(sorted({row, next(other for other in alike.index[alike] if other != row)}))


def _numbers(rows: Any) -> list[int]:
    return [int(row) + 1 for row in rows]


def task_warnings(name: str, by_split: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each warning about a task's rows, from the `summary` of each split."""
    for split, counts in by_split.items():
        rows = rows_of(split)
        usual = [(*counts.get(kind, (0, [])), words, MANY) for kind, words in KINDS.items()]
        for n, first, words, many in [*usual, *counts.get("more", ())]:
            if n and n >= many * counts["rows"]:
                share = f"{n / counts['rows']:.0%}".replace("%", " %") if many else n
                at = f"row {first[0]}" if len(first) == 1 else f"rows {first[0]} and {first[1]}"
                yield f"tasks.{name}: {share} of {counts['rows']} {rows} {words}; first at {at}"


def cut(model: str, length: int, tasks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line if most training rows of any task have more words than the model's maximum of tokens."""
    shares = {name: _longer(by_split["train"].get("words", []), length) for name, by_split in tasks.items()}
    if long := [f"{share} % of tasks.{name}" for name, share in shares.items() if share >= 100 * MOST]:
        yield (
            f"models.{model}.max_length: {length} tokens, but more words in {listing(long)}; "
            "the model sees only the beginning of these rows"
        )


def _longer(words: Sequence[int], length: int) -> int:
    """Return the percentage of rows with more words than `length`."""
    return round(100 * float((np.array(words) > length).mean())) if words else 0
