"""Mark after the names of tasks of which unpruned models learnt nothing."""

from collections.abc import Collection, Mapping

import pandas as pd
from matplotlib.axes import Axes

from headspec.per_example import labels_and_predictions
from headspec.plots.drawing.style import key
from headspec.statistics.chance import learnt_nothing

SAYS = "unpruned model at chance"


def unlearnt(predictions: Mapping[int, pd.DataFrame], metrics: Mapping[str, str]) -> set[str]:
    """The tasks of which the unpruned model of some seed has learnt nothing."""
    return {
        str(task)
        for table in predictions.values()
        for task, rows in table[table["pruned_for"] == "none"].groupby("task")
        if learnt_nothing(metrics[str(task)], *labels_and_predictions(rows))
    }


def marked(task: str, nothing: Collection[str]) -> str:
    """The name of a task, with the mark if it is one of `nothing`."""
    return f"{task} ×" if task in nothing else task


def name_mark(axes: Axes, nothing: Collection[str]) -> None:
    """Add the mark to the legend if any task has it."""
    if nothing:
        key(axes, f"after a task: {SAYS}", linestyle="none", marker="x", color="black")
