"""What is known of single heads: importance over seeds, ranks, measures, roles, gates."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd

from headspec.explorer.sources import Run, Sources
from headspec.explorer.values import OF_HEADS, listed
from headspec.heads.ranking import importance_map

#: measures of the table 'heads' that the page has, beside importance
MEASURES = ("ablation", "relevance", "confidence")
GROUP = ["model", "mixture", "method"]


def heads(sources: Sources) -> list[dict[str, Any]]:
    """A map for every model, mixture and method: per task importance, ranks, measures; roles; gates.

    Importance is the mean over seeds, with the smallest and the largest of a seed; ranks, from 0, are those
    by which each seed's heads are pruned. Other measures are means over seeds. Of gates there is, for each
    way, the share of its sets of gates that keep the head.
    """
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in sources.runs:
        if "importance" in run.tables:
            groups[run.model, run.mixture, run.method].append(run)
    return [
        dict(zip(GROUP, group, strict=True)) | _of_runs(runs) | _of_tables(sources, group)
        for group, runs in groups.items()
    ]


def _of_runs(runs: list[Run]) -> dict[str, Any]:
    """Importance and ranks of all tasks of the runs of one group, which differ in their seed."""
    found: dict[str, Any] = {"seeds": [run.seed for run in runs], "importance": {}}
    for task in runs[0].tables["importance"]["task"].unique():
        maps = np.array([importance_map(run.tables["importance"], task) for run in runs])
        flat = maps.reshape(len(runs), -1)
        # ties go to the first head, as in pruning
        ranks = np.argsort(np.argsort(-flat, axis=1, kind="stable"), axis=1)
        found["layers"], found["heads"] = maps.shape[1:]
        found["importance"][str(task)] = {
            "value": listed(flat.mean(axis=0), OF_HEADS),
            "low": listed(flat.min(axis=0), OF_HEADS),
            "high": listed(flat.max(axis=0), OF_HEADS),
            "ranks": ranks.tolist(),
        }
    return found


def _of_tables(sources: Sources, group: tuple[str, str, str]) -> dict[str, Any]:
    """Measures by task, roles by seed and gates by way of one group, where the study has them."""
    found: dict[str, Any] = {}
    if (frame := _rows(sources, "heads", group)) is not None:
        frame = frame[frame["measure"].isin(MEASURES)]
        means = frame.groupby(["measure", "task", "layer", "head"])["value"].mean()
        found["measures"] = {
            str(measure): {
                str(task): listed(values, OF_HEADS) for task, values in of_measure.groupby(level="task")
            }
            for measure, of_measure in means.groupby(level="measure")
        }
    if (frame := _rows(sources, "head_roles", group)) is not None:
        words = frame["role"] + frame["relation"].map(lambda name: f" ({name})", na_action="ignore").fillna(
            ""
        )
        roles = frame.assign(words=words).groupby(["layer", "head"])["words"]
        found["roles"] = [", ".join(sorted(set(of) - {"none"})) for _, of in roles]
    if (frame := _rows(sources, "gates", group)) is not None:
        last = ["seed", "way", "sets", "fraction", "task"]
        frame = frame[frame["step"] == frame.groupby(last, dropna=False)["step"].transform("max")]
        shares = frame.groupby(["way", "layer", "head"])["kept"].mean()
        found["gates"] = {str(way): listed(values, OF_HEADS) for way, values in shares.groupby(level="way")}
    return found


def _rows(sources: Sources, table: str, group: tuple[str, str, str]) -> pd.DataFrame | None:
    """Rows of a model, mixture and method in a table; None without any."""
    frame = sources.tables.get(table)
    if frame is None:
        return None
    frame = frame[(frame[GROUP] == group).all(axis=1)]
    return None if frame.empty else frame
