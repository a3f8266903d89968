"""Reliability of importance: agreement between halves of the samples, seeds, tasks and methods."""

import functools
import itertools
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import tables
from headspec.config.runs import Run
from headspec.head_arrays import existing
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.processes import map_in_processes
from headspec.tables import FLOAT, INT, TEXT, Schema
from headspec.tasks.kinds.texts.metrics import SPEARMAN
from headspec.tasks.metrics import score

RELIABILITY = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "kind": TEXT, "against": TEXT,
     "seed_a": INT, "seed_b": INT, "spearman": FLOAT, "top_overlap": FLOAT},
    keys=8,
    about={
        "kind": "what is compared: `split_half` (first and last folds), `seeds`, `tasks` of a run, or "
            "`methods`",
        "against": "the other task or method; else null",
        "seed_a": "seed of the run",
        "seed_b": "the other seed, of the other method with `methods`; else null",
        "spearman": "rank correlation over heads",
        "top_overlap": "Jaccard index of the top heads; null where there are none",
    },
)  # fmt: skip


def agreement(a: NDArray[np.floating], b: NDArray[np.floating], fraction: float) -> dict[str, float]:
    """Return Spearman's correlation of two maps (layers, heads) and the Jaccard index of their prune sets.

    The Jaccard index is nan where `fraction` of the heads is less than one head.
    """
    exists = existing(a)
    n = prune_count(fraction, int(exists.sum()))
    top_a, top_b = top_heads(a, n), top_heads(b, n)
    overlap = (top_a & top_b).sum() / (top_a | top_b).sum() if n else np.nan
    return {"spearman": score(SPEARMAN, a[exists], b[exists]), "top_overlap": float(overlap)}


def reliability(
    importances: Iterable[tuple[Run, pd.DataFrame | str]], fraction: float, processes: int = 1
) -> pd.DataFrame:
    """Return the table 'reliability'; a pair of tasks or methods has a row for each member.

    For split halves, `spearman` is their correlation r; the Spearman-Brown estimate for all samples is
    2r / (1 + r). `importances` pairs each run with its table 'importance' or the table's path; `fraction`
    is the share of heads in a prune set. The result does not depend on `processes`.
    """
    groups: dict[tuple[str, str], list[tuple[Run, pd.DataFrame | str]]] = {}
    for run, stored in importances:
        groups.setdefault((run.model, run.mixture), []).append((run, stored))
    parts = map_in_processes(functools.partial(_mixture_rows, fraction=fraction), groups.values(), processes)
    frame = pd.DataFrame(itertools.chain.from_iterable(parts), columns=list(RELIABILITY.columns))
    return frame.astype({"against": "str", "seed_a": "Int32", "seed_b": "Int32"})


def _mixture_rows(
    importances: list[tuple[Run, pd.DataFrame | str]], fraction: float
) -> list[dict[str, object]]:
    """Return the rows of one model and mixture."""
    rows: list[dict[str, object]] = []
    maps: dict[Run, dict[str, NDArray[np.float64]]] = {}
    for run, stored in importances:
        frame = tables.read(stored) if isinstance(stored, str) else stored
        run_maps = maps[run] = {task: importance_map(frame, task) for task in run.tasks}
        for task in run.tasks:
            own = frame[frame["task"] == task]
            first = own["fold"] < own["fold"].nunique() // 2
            halves = [importance_map(half, task) for half in (own[first], own[~first]) if len(half)]
            agreed = agreement(halves[0], halves[1], fraction) if len(halves) == 2 else {}
            rows.append(_row(run, task, "split_half") | agreed)
        for task, other in itertools.combinations(run.tasks, 2):
            agreed = agreement(run_maps[task], run_maps[other], fraction)
            rows += [_row(run, a, "tasks", b) | agreed for a, b in ((task, other), (other, task))]
    for run, second in itertools.combinations(sorted(maps, key=lambda run: run.path), 2):
        for task in run.tasks:
            agreed = agreement(maps[run][task], maps[second][task], fraction)
            if run.method == second.method:
                rows.append(_row(run, task, "seeds", seed_b=second.seed) | agreed)
            else:
                both = (run, second), (second, run)
                rows += [_row(a, task, "methods", b.method, b.seed) | agreed for a, b in both]
    return rows


def _row(
    run: Run, task: str, kind: str, against: str | None = None, seed_b: int | None = None
) -> dict[str, object]:
    return {"model": run.model, "mixture": run.mixture, "method": run.method, "task": task,
            "kind": kind, "against": against, "seed_a": run.seed, "seed_b": seed_b}  # fmt: skip
