"""Dissociation against every measure of task similarity, in small panels."""

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy

from headspec.plots.drawing.points import correlation_text, draw_points
from headspec.plots.drawing.style import PAGE, legend, styled
from headspec.statistics.similarity.paired import paired

#: panels per row, at most
COLUMNS = 6
#: candidate steps between ticks
STEPS = [1, 2, 2.5, 5, 10]


def by_strength(correlation: pd.DataFrame) -> list[str]:
    """Measures by their mean |Pearson r| over models, the strongest first; an undefined r counts as 0."""
    strength = correlation["pearson_r"].abs().fillna(0).groupby(correlation["measure"]).mean()
    return list(strength.sort_values(ascending=False, kind="stable").index)


@styled
def draw(
    similarity: pd.DataFrame,
    combined: pd.DataFrame,
    correlation: pd.DataFrame,
    paradigms: Mapping[str, str],
    method: str,
    labels: Mapping[str, str],
) -> Figure:
    """A block of panels per model, a panel per measure, the strongest correlation first."""
    pairs = paired(similarity, combined, paradigms, method)
    models = list(pairs["model"].unique())
    results = correlation[correlation["model"].isin(models)]
    measures = by_strength(results)
    lines = math.ceil(len(measures) / COLUMNS)
    columns = math.ceil(len(measures) / lines)
    size = (max(3.6, min(PAGE, 0.4 + 1.5 * columns)), 0.7 + len(models) * (0.15 + 1.3 * lines))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(models) * lines, columns, sharey=True, squeeze=False)
    for panels, model in zip(grid.reshape(len(models), -1), models, strict=True):
        for axes, measure in zip(panels, measures, strict=False):
            chosen = (pairs["model"] == model) & (pairs["measure"] == measure)
            result = results[(results["model"] == model) & (results["measure"] == measure)].iloc[0]
            draw_points(axes, pairs[chosen], result)
            axes.set_title(f"{labels[measure]}\n{correlation_text(result)}", fontsize="small")
            axes.xaxis.set_major_locator(MaxNLocator(3, steps=STEPS))
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
            axes.tick_params(axis="x", labelsize="small")
            axes.margins(0.12)
        heading = panels[0].set_title(model, loc="left", fontweight="bold")  # above the centred title
        heading.set_transform(offset_copy(heading.get_transform(), figure, y=20, units="points"))
        for axes in panels[len(measures) :]:
            axes.remove()
    for axes in panels[: len(measures)][-columns:]:  # the lowest in each column
        axes.set_xlabel("similarity", fontsize="small")
    figure.supylabel("mean dissociation D (%)", fontsize="medium")
    legend(figure)
    return figure
