"""Panels of figures of kept heads: one for each way, and for each task with heads of its own."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd


def panels(rows: pd.DataFrame, labels: Iterable[str]) -> list[tuple[str, str, str]]:
    """(way, sets, task) of every panel: ways in the order of `labels`, heads that tasks share first.

    Parameters
    ----------
    rows : columns way, sets and task, which is empty for heads that all tasks share
    """
    kinds = sorted({*zip(rows["sets"], rows["task"], strict=True)}, key=lambda kind: (kind[0] == "own", kind))
    ways = set(rows["way"])
    return [(way, sets, task) for sets, task in kinds for way in labels if way in ways]
