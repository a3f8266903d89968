"""Panels of figures of kept heads, and scales that no interval leaves."""

from collections.abc import Iterable, Sequence

import pandas as pd

from headspec.plots.drawing.style import in_order

#: scope: its heads, in the order of panels
SCOPES = {"shared": "shared heads", "per_task": "own heads"}


def panels(rows: pd.DataFrame, labels: Iterable[str], tasks: Sequence[str]) -> list[tuple[str, str, str]]:
    """(pruning method, scope, task) of every panel: in the order of `labels`, heads that tasks share first.

    The task is empty for heads that all tasks share.
    """
    found = {*zip(rows["way"], rows["scope"], rows["task"], strict=True)}
    names, order = list(labels), in_order(rows["task"], ("", *tasks))
    return sorted(found, key=lambda row: (row[1] == "per_task", order.index(row[2]), names.index(row[0])))


def scale(rows: pd.DataFrame, value: str, factor: float) -> tuple[float, float]:
    """Ends of an axis with all of the column `value` times `factor`, and possible values of the intervals.

    A fraction is no more than 1, and below 0 only if one is.
    """
    low, high = rows[[value, f"{value}_low"]].min().min(), rows[[value, f"{value}_high"]].max().max()
    if rows[value].between(0, 1).all():
        low, high = max(low, 0.0), min(high, 1.0)
    margin = max(0.04 * (high - low), 0.005)
    return factor * (low - margin), factor * (high + margin)
