"""Gates while they learn: number of open heads, and how early the final heads are found."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.drawing.style import PAGE, legend, styled
from headspec.plots.gates.budgets import method_style


@styled
def draw(gates: pd.DataFrame, labels: Mapping[str, str], places: Mapping[str, int]) -> Figure:
    """Two panels against the step: the expected number of open heads, and the share of the final ones.

    Each pruning method is shown at the middle of its numbers of heads, as the mean over seeds and tasks.
    """
    figure = Figure(figsize=(PAGE, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for method in labels:
        rows = gates[gates["way"] == method]
        fractions = sorted(rows["fraction"].dropna().unique())
        if not fractions or rows["step"].nunique() < 2:
            continue
        middle = rows[rows["fraction"] == fractions[len(fractions) // 2]]
        course = _course(middle)
        look = method_style(places, method) | {"label": labels[method], "markevery": 4}
        left.plot(course["open"], **look)
        right.plot(100 * course["final"], **look)
    left.set_ylabel("heads expected to be open")
    right.set_ylabel("final heads among the first (%)")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.set_ylim(-0.03 * axes.get_ylim()[1])  # lines at 0 are whole
        axes.grid(axis="y")
    legend(figure)
    return figure


def _course(gates: pd.DataFrame) -> pd.DataFrame:
    """Expected number of open heads, and share of the final heads that would be kept, by step."""
    keys = ["scope", "seed", "task"]
    frame = gates.assign(task=gates["task"].fillna("all"))
    last = frame["step"] == frame.groupby(keys)["step"].transform("max")
    final = frame[last][[*keys, "layer", "head", "kept"]].rename(columns={"kept": "final"})
    merged = frame.merge(final, on=[*keys, "layer", "head"])
    merged["common"] = merged["kept"] & merged["final"]
    sums = merged.groupby([*keys, "step"])[["open_probability", "common", "final"]].sum(min_count=1)
    shares = pd.DataFrame({"open": sums["open_probability"], "final": sums["common"] / sums["final"]})
    return shares.astype(float).groupby("step").mean()
