"""Metric of every task alone, in pairs, and with all others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.drawing.style import SIGNED, points, styled
from headspec.statistics.verdicts import clear_of_seeds
from headspec.tasks.metrics import metric

#: name of training on the task alone
SINGLE = "single-task"


@styled
def draw(sharing: pd.DataFrame, metrics: Mapping[str, str]) -> Figure:
    """A row for each task, a column for the task alone, for each partner of a pair, and for each group.

    Cells: metric in per cent, mean over seeds, and the difference from the task alone in points; a star where
    it is clear for other seeds too, × where neither is better than chance. Blue: lost; orange: gained.
    """
    main = sharing[sharing["metric"] == sharing["task"].map(metrics)]
    main = main[main["method"].isin(["single", "tuned", "iat", "even"])]
    members = main.groupby(["mixture", "method"])["task"].agg(list)
    tasks = [task for task in metrics if task in {*main["task"]}]
    main = main.assign(
        column=[_column(row, members) for row in main.itertuples()],
        nothing=main["unpruned_at_chance"].eq(True),
        clear=clear_of_seeds(main),
    )
    pairs = [SINGLE, *(f"+ {task}" for task in tasks)]
    others = [name for name in main["column"].unique() if name not in pairs]
    others.sort(key=lambda name: "\n" in name)  # plain training first
    columns = [name for name in [*pairs, *others] if name in {*main["column"]}]
    cells = main.set_index(["task", "column"])
    lost = cells["difference"].unstack("column").reindex(index=tasks, columns=columns)
    largest = 100 * max(0.01, float(np.nanmax(np.abs(lost.to_numpy(dtype=float)), initial=0.0)))
    longest = max(len(line) for name in columns for line in name.split("\n"))
    width = 1.6 + max(0.75, 0.058 * longest) * len(columns)
    figure = Figure(figsize=(width, 0.9 + 0.42 * len(tasks)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(-100 * lost.fillna(0), cmap=SIGNED, vmin=-largest, vmax=largest, aspect="auto")
    for _, row in main.iterrows():
        text = f"{100 * row['value']:.1f}{' ×' if row['nothing'] else ''}"
        if pd.notna(row["difference"]):
            star = "*" if row["clear"] and not row["nothing"] else ""
            text += f"\n{points(row['difference'])}{star}"
        at = columns.index(row["column"]), tasks.index(row["task"])
        axes.text(*at, text, ha="center", va="center", fontsize="small", linespacing=1.05)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(tasks)), [f"{task}\n{metric(metrics[task]).name}" for task in tasks])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    key = "\n×: no better than chance, nor is single-task" if main["nothing"].any() else ""
    axes.set_xlabel("trained (metric in %,\ndifference from single-task in points)" + key)
    figure.colorbar(image, ax=axes, aspect=14, pad=0.02).set_label("lost (points), below 0 gained")
    return figure


def _column(row: Any, members: pd.Series) -> str:
    """Partners of a task in training: none, a task, or a group, and the method if it is not plain."""
    if row.method == "single":
        return SINGLE
    others = [task for task in members[row.mixture, row.method] if task != row.task]
    name = f"+ {others[0]}" if len(others) == 1 else row.mixture
    return name if row.method == "tuned" else f"{name}\n{row.method}"
