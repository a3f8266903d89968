"""Reproducibility of importance between halves of the samples and seeds, and similarity between tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.methods import METHODS
from headspec.plots.drawing.style import heights, key, legend, mixture_panels, styled

#: kind of agreement that is shown: (legend entry, marker)
KINDS = {"split_half": ("split half", "o"), "seeds": ("two seeds", "D"), "tasks": ("two tasks", "^")}
#: method: fill of its markers
FILLS = {name: method.fill for name, method in METHODS.items() if method.fill}


@styled
def draw(reliability: pd.DataFrame, mixtures: Mapping[str, Sequence[str]]) -> Figure:
    """Rank correlation of importance maps: a row per task of every mixture, a panel per model.

    A point is a run (split halves), a pair of seeds, or a run and another of its tasks.
    """
    reliability = reliability[reliability["kind"].isin(KINDS)]
    figure, panels, rows = mixture_panels(reliability, mixtures, "rank correlation of importance (Spearman)")
    methods = [method for method in FILLS if method in set(reliability["method"])]
    black: dict[str, Any] = {"color": "black", "linestyle": "none", "markeredgewidth": 0.5}
    for name, group in reliability.groupby(["model", "kind", "method"]):
        model, kind, method = map(str, name)
        lane = heights(rows, group, methods.index(method), len(methods))
        _, marker = KINDS[kind]
        panels[model].plot(group["spearman"], lane, marker=marker, markerfacecolor=FILLS[method], **black)
    first, *_ = panels.values()
    for label, marker in (KINDS[kind] for kind in KINDS if kind in set(reliability["kind"])):
        key(first, label, marker=marker, markerfacecolor="none", **black)
    for method in methods:
        key(first, method, marker="s", markerfacecolor=FILLS[method], **black)
    for axes in panels.values():
        axes.set_xlim(min(0, reliability["spearman"].min() - 0.05), 1.05)
    legend(figure)
    return figure
