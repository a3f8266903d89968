"""The pruning matrix: whose heads are pruned (rows) against the evaluated task (columns)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from headspec.plots.drawing.style import SHADES, at_fraction, stacked, styled
from headspec.plots.drawing.unlearnt import SAYS, marked, unlearnt
from headspec.statistics.dissociation.scores import relative
from headspec.tasks.metrics import metric

#: rows that belong to no task
BASE, RANDOM = "none", {"random": "random", "random_by_layer": "random by layer"}


@styled
def draw(
    pruning: Mapping[int, pd.DataFrame],
    predictions: Mapping[int, pd.DataFrame],
    tasks: Sequence[str],
    fraction: float,
    metrics: Mapping[str, str],
) -> Figure:
    """Metric of every task with nothing pruned, the top heads of each task, and random heads.

    Cells: mean over seeds in per cent, +- the standard deviation over seeds or, for random heads, over the
    draws within a seed. Shades: relative performance P (Li et al. 2023, Eq. 5).
    """
    rows = [BASE, *tasks, *RANDOM]
    mean, spread = _cells(pruning, rows, tasks, fraction, metrics)
    performance = relative(mean, mean[0])  # P (rows, tasks)
    cell = max(0.55, 0.068 * max(map(len, tasks)))
    figure = Figure(figsize=(cell * len(tasks) + 1.9, 0.33 * len(rows) + 0.75), layout="constrained")
    axes = figure.subplots()
    lowest = min(0.9, np.floor(10 * max(0, np.nanmin(performance, initial=1))) / 10)
    image = axes.imshow(1 - performance, cmap=SHADES, vmin=0, vmax=1 - lowest, aspect="auto")
    for (row, column), value in np.ndenumerate(mean):
        text = "–" if np.isnan(value) else f"{100 * value:.1f}"
        if not np.isnan(spread[row, column]):
            text += f"\n±{100 * spread[row, column]:.1f}"
        axes.text(column, row, text, ha="center", va="center", fontsize="small", linespacing=1.05)
    for index in range(len(tasks)):
        corner = (index - 0.5, index + 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, linewidth=1.6, clip_on=False, zorder=3))
    for edge in (0.5, len(tasks) + 0.5):
        axes.axhline(edge, color="black", linewidth=0.6)
    nothing = unlearnt(predictions, metrics)
    named = [f"{marked(task, nothing)}\n{metric(metrics[task]).name}" for task in tasks]
    axes.set_xticks(range(len(tasks)), named)
    names = ["nothing (base)", *(f"top of {task}" for task in tasks), *RANDOM.values()]
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    over = ["seeds"] * (len(pruning) > 1) + ["draws in random rows"] * (not np.isnan(spread[-2:]).all())
    key = f"\n×: {SAYS}" if nothing else ""
    axes.set_xlabel(
        "evaluated task (metric in %" + (f",\n± SD over {', '.join(over)})" if over else ")") + key
    )
    axes.set_ylabel(f"heads pruned ({100 * fraction:.3g} %)")
    bar = figure.colorbar(image, ax=axes, aspect=14, pad=0.02)
    bar.ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    bar.ax.yaxis.set_major_formatter(lambda lost, _: f"{1 - lost:.2f}")
    bar.ax.invert_yaxis()
    bar.set_label("relative performance P")
    return figure


def _cells(
    pruning: Mapping[int, pd.DataFrame],
    rows: Sequence[str],
    tasks: Sequence[str],
    fraction: float,
    metrics: Mapping[str, str],
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the main metric, both (rows, tasks); nan if undefined."""
    frame = stacked(pruning)
    frame = frame[frame["metric"] == frame["task"].map(metrics)]
    base = frame[frame["pruned_for"] == BASE]
    pruned = at_fraction(frame[frame["order"] != "bottom"], fraction)
    cells = pd.concat([base, pruned]).groupby(["pruned_for", "task", "seed"])["value"]
    by_seed = cells.agg(["mean", "var"]).groupby(["pruned_for", "task"])
    across, within = by_seed["mean"].std(), by_seed["var"].mean() ** 0.5
    spread = across.where(~across.index.isin(list(RANDOM), level="pruned_for"), within)

    def table(values: pd.Series) -> np.ndarray:
        return values.unstack("task").reindex(index=list(rows), columns=list(tasks)).to_numpy(dtype=float)

    return table(by_seed["mean"].mean()), table(spread)
