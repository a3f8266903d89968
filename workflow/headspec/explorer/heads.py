"""Maps of single heads: importance over seeds, ranks, other measures, roles, gates."""

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.explorer.study_tables import HEAD_DIGITS, Columns, Run, StudyTables, json_list
from headspec.head_arrays import as_array, first_rows
from headspec.heads.ranking import importance_map
from headspec.statistics.atlas.roles import majority_roles
from headspec.statistics.intervals import decisive

#: measures of the table 'heads' that the page shows, besides importance
MEASURES = (
    "ablation", "mean_ablation", "ablation_size", "relevance", "confidence_with_separator", "confidence",
    "confidence_no_separator",
)  # fmt: skip
#: of these, those with intervals
BOUNDED = ("ablation", "mean_ablation")
GROUP = ["model", "mixture", "method"]
Group = tuple[str, str, str]


def heads(study: StudyTables) -> list[dict[str, Any]]:
    """Return a map for every model, mixture and method: measures, ranks, differences, roles and gates.

    Importance is that of runs, which are pruned by it, or else of the atlas: mean, minimum and maximum over
    seeds. Ranks, from 0, are given for each seed. Other measures and the ends of their intervals are means
    over seeds. Gates are the share of a pruning method's sets that keep the head. For a model with several
    kinds of attention, the first row of each, from 0, is included. Lists have all places in `layers` rows of
    `heads`; those in `absent` have no head.
    """
    runs: dict[Group, list[Run]] = defaultdict(list)
    for run in study.runs:
        if "importance" in run.tables:
            runs[run.model, run.mixture, run.method].append(run)
    measured = _by_group(study, "heads")
    made = {
        "differences": (_differences, _by_group(study, "task_differences")),
        "gates": (_gates, _by_group(study, "gates")),
    }
    roles = _by_group(study, "head_roles")
    entries = []
    for group in dict.fromkeys([*runs, *measured]):
        one = dict(zip(GROUP, group, strict=True)) | _measures(runs.get(group, []), measured.get(group))
        one |= {name: make(tables[group]) for name, (make, tables) in made.items() if group in tables}
        if group in roles:
            one["roles"] = _roles(roles[group], (one["layers"], one["heads"]))
        if group[0] in study.attention:
            one["kinds"] = list(first_rows(study.attention[group[0]]).items())
        entries.append(one)
    return entries


def _by_group(study: StudyTables, table: str) -> dict[Group, pd.DataFrame]:
    """Return the rows of a table by model, mixture and method; empty if there is no such table."""
    frame = study.table(table)
    if frame is None:
        return {}
    return {(str(a), str(b), str(c)): rows for (a, b, c), rows in frame.groupby(GROUP)}


def _measures(runs: list[Run], frame: pd.DataFrame | None) -> dict[str, Any]:
    """Return seeds, numbers of layers and heads, and by task ranks and measures, of one group."""
    if runs:
        seeds = [run.seed for run in runs]
        tables = [run.tables["importance"] for run in runs]
        names = tables[0]["task"].unique()
        maps = {task: np.array([importance_map(table, task) for table in tables]) for task in names}
    else:
        assert frame is not None  # a group has runs or a frame
        rows = frame[frame["measure"] == "importance"].sort_values(["seed", "layer", "head"])
        seeds = rows["seed"].unique().tolist()
        maps = {
            task: np.array([as_array(seed["value"]) for _, seed in part.groupby("seed")])
            for task, part in rows.set_index(["layer", "head"]).groupby("task", sort=False)
        }
    importance = {str(task): values for task, values in maps.items()}
    first = next(iter(importance.values()))[0]
    layers, in_layer = first.shape
    by_measure = {"importance": {task: _over_seeds(values) for task, values in importance.items()}}
    if frame is not None:
        by_measure |= _atlas_measures(frame, list(importance))
    ranks = {task: _ranks(values) for task, values in importance.items()}
    size = {"layers": layers, "heads": in_layer}
    if len(absent := np.flatnonzero(np.isnan(first))):
        size["absent"] = absent.tolist()
    return {"seeds": seeds, **size, "ranks": ranks, "measures": by_measure}


def _over_seeds(values: NDArray[np.float64]) -> Columns:
    """Return mean, minimum and maximum over seeds of values (seeds, layers, heads)."""
    flat = values.reshape(len(values), -1)
    ends = {"value": flat.mean(axis=0), "low": flat.min(axis=0), "high": flat.max(axis=0)}
    return {name: json_list(end, HEAD_DIGITS) for name, end in ends.items()}


def _ranks(values: NDArray[np.float64]) -> list[list[int | None]]:
    """Return ranks of heads in each seed by values (seeds, layers, heads); of ties the first comes first."""
    flat = values.reshape(len(values), -1)
    ranks = np.argsort(np.argsort(-flat, axis=1, kind="stable"), axis=1)
    return [json_list(seed) for seed in np.where(np.isnan(flat), np.nan, ranks)]


def _every(values: pd.Series) -> list[Any]:
    """Return values of heads, indexed by layer and head, as a list over all places."""
    return json_list(as_array(values).ravel(), HEAD_DIGITS)


def _atlas_measures(frame: pd.DataFrame, tasks: list[str]) -> dict[str, dict[str, Columns]]:
    """Return the measures of the table 'heads' by task."""
    frame = frame[frame["measure"].isin(MEASURES)].rename(columns={"ci_low": "low", "ci_high": "high"})
    means = frame.groupby(["measure", "task", "layer", "head"])[["value", "low", "high"]].mean()
    there = means.index.get_level_values("measure").unique()
    return {
        measure: {
            task: {
                name: _every(means[name].xs((measure, task)))
                for name in ("value", *(("low", "high") if measure in BOUNDED else ()))
            }
            for task in tasks
        }
        for measure in MEASURES
        if measure in there
    }


def _differences(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return measures for one task minus those for another, with their corrected p-values."""
    ordered = frame.sort_values(["layer", "head"]).set_index(["layer", "head"])
    groups = ordered.groupby(["measure", "task", "against"], sort=False)
    return [
        {
            "measure": measure,
            "task": task,
            "against": against,
            "difference": _every(rows["difference"]),
            "p": _every(decisive(rows)),
        }
        for (measure, task, against), rows in groups
    ]


def _roles(frame: pd.DataFrame, shape: tuple[int, int]) -> Columns:
    """Return the role of each head in most seeds, and its relation or distance in tokens.

    Both are null where roles are not measured, as for cross-attention.
    """
    every = pd.MultiIndex.from_product([range(size) for size in shape], names=["layer", "head"])
    shown = majority_roles(frame).reindex(every)
    positional = frame[frame["role"] == "positional"].groupby(["layer", "head"])["offset"]
    places = positional.agg(lambda offsets: f"{offsets.mode()[0]:+.0f}".replace("-", "\u2212"))
    places = places.reindex(shown.index).where(shown["role"] == "positional")
    return {"role": json_list(shown["role"]), "of": json_list(shown["relation"].fillna(places))}


def _gates(frame: pd.DataFrame) -> Columns:
    """Return the share of the final sets of gates that keep a head, for each pruning method."""
    last = ["seed", "way", "scope", "fraction", "task"]
    frame = frame[frame["step"] == frame.groupby(last, dropna=False)["step"].transform("max")]
    shares = frame.groupby(["way", "layer", "head"])["kept"].mean()
    return {str(method): _every(values) for method, values in shares.groupby(level="way")}
