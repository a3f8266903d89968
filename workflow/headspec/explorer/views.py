"""What the views of the page show, from the tables: one function each, listed in `VIEWS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from headspec.explorer.heads import GROUP, heads
from headspec.explorer.sources import Sources
from headspec.explorer.values import Columns, columns
from headspec.statistics.training.improvement import decisive

INTERVAL = ["ci_low", "ci_high", "ci_over", "p_value", "p_holm"]
D = [*GROUP, "task", "n_seeds", "fraction", "dissociation", *INTERVAL, "at_chance"]
D += ["unpruned_at_chance", "case", "distinct"]


def _bounded(name: str) -> list[str]:
    """A column and the ends of its interval."""
    return [name, f"{name}_low", f"{name}_high"]


BELIEF = [
    *GROUP, "task", "ranking", "n_seeds", *_bounded("ablation_spearman"),
    *_bounded("ablation_size_spearman"), *_bounded("area"), *_bounded("difference"), "difference_p_holm",
    *_bounded("dissociation"), "dissociation_p_holm", "at_chance", "unpruned_at_chance",
]  # fmt: skip


def _table(name: str, names: list[str]) -> Callable[[Sources], Columns]:
    """A view's data that are columns of one table."""
    return lambda sources: columns(sources.tables.get(name, pd.DataFrame()), names)


def pruning(sources: Sources) -> Columns:
    """Values of each task's main metric under every mask: mean over seeds and draws, least and most."""
    metrics = sources.tables.get("dissociation")
    frames = [
        run.tables["pruning"].assign(model=run.model, mixture=run.mixture, method=run.method)
        for run in sources.runs
        if "pruning" in run.tables
    ]
    if metrics is None or not frames:
        return {}
    main = metrics.drop_duplicates([*GROUP, "task"]).reindex(columns=[*GROUP, "task", "metric", "chance"])
    frame = pd.concat(frames, ignore_index=True).merge(main)
    keys = [*GROUP, "task", "metric", "chance", "pruned_for", "order", "fraction", "n_pruned"]
    values = frame.groupby(keys, dropna=False)["value"].agg(["mean", "min", "max"]).reset_index()
    return columns(values, [*keys, "mean", "min", "max"])


def similarity(sources: Sources) -> Columns:
    """Similarity of tasks, without single subjects."""
    frame = sources.tables.get("similarity", pd.DataFrame(columns=["subject"]))
    names = ["model", "measure", "task_a", "task_b", "similarity", "between_seeds", "ci_low", "ci_high"]
    return columns(frame[frame["subject"].isna()], names)


def iat(sources: Sources) -> Columns:
    """Changes by IAT and its controls, over all metrics of a task; p_holm is the p that decides."""
    names = [*GROUP, "task", "metric", "against", "n_seeds", "value", "difference", *INTERVAL]
    names.append("unpruned_at_chance")
    found = sources.tables.get("improvement")
    return columns(pd.DataFrame() if found is None else found.assign(p_holm=decisive(found)), names)


def probes(sources: Sources) -> Columns:
    """What the best heads know of all labels of a task, and how much of it their controls do not."""
    frame = sources.tables.get("probes", pd.DataFrame(columns=["label", "heads"]))
    names = [*GROUP, "task", "n_seeds", "accuracy", "accuracy_low", "accuracy_high", "control"]
    names += ["selectivity", "selectivity_low", "selectivity_high"]
    return columns(frame[frame["label"].isna() & (frame["heads"] == "best")], names)


#: part of the page's data: what makes it, empty where the study has no such tables
VIEWS: Mapping[str, Callable[[Sources], Any]] = {
    "combined": _table("combined", D),
    "fractions": _table("fractions", D),
    "pruning": pruning,
    "heads": heads,
    "belief": _table("belief", BELIEF),
    "curves": _table(
        "pruning_curves",
        [*GROUP, "task", "ranking", "order", "metric", "fraction", "value", "draws_low", "draws_high"],
    ),
    "agreement": _table(
        "agreement",
        [*GROUP, "task", "measure_a", "measure_b", *_bounded("spearman"), *_bounded("top_overlap")],
    ),
    "similarity": similarity,
    "correlation": _table(
        "correlation",
        ["model", "measure", "n_pairs", "pearson_r", "p_mantel", "spearman_r", "p_mantel_spearman"],
    ),
    "improvement": iat,
    "sharing": _table(
        "sharing",
        [*GROUP, "task", "metric", "n_seeds", "value", "difference", *INTERVAL, "unpruned_at_chance"],
    ),
    "probes": probes,
    "budgets": _table(
        "budgets",
        [
            *GROUP,
            "scope",
            "way",
            "fraction",
            "penalty",
            "task",
            "metric",
            "against",
            "heads",
            "missed",
            "n_seeds",
            "value",
            "value_low",
            "value_high",
            "difference",
            "ci_low",
            "ci_high",
            "p_holm",
            "unpruned_at_chance",
        ],
    ),  # fmt: skip
}
