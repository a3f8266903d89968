"""Reliability of importance: agreement between halves of the samples, and between seeds."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import tables
from headspec.config.runs import Run
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.statistics.metrics import score
from headspec.statistics.processes import mapped
from headspec.tables import FLOAT, INT, TEXT, Schema

RELIABILITY = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "kind": TEXT, "seed_a": INT,
     "seed_b": INT, "spearman": FLOAT, "top_overlap": FLOAT},
    keys=7,
)  # fmt: skip
"""Table `reliability`: a row for each task of a run (split halves), or of a pair of seeds.
tables/reliability.parquet

kind: `split_half`: even against odd folds of one run; `seeds`: two seeds
seed_a: seed of the run, or the first of two
seed_b: the second of two; null for split halves
spearman: rank correlation of the two maps over heads
top_overlap: Jaccard index of the two sets of top heads; null where they are empty
"""


def agreement(a: NDArray[np.floating], b: NDArray[np.floating], fraction: float) -> dict[str, float]:
    """Spearman's correlation of two maps (layers, heads) over heads, and Jaccard index of their prune sets.

    The overlap is nan where `fraction` of the heads is less than one head.
    """
    n = prune_count(fraction, a.size)
    top_a, top_b = top_heads(a, n), top_heads(b, n)
    overlap = (top_a & top_b).sum() / (top_a | top_b).sum() if n else np.nan
    return {"spearman": score("spearman", a.ravel(), b.ravel()), "top_overlap": float(overlap)}


def reliability(
    importances: Iterable[tuple[Run, pd.DataFrame | str]], fraction: float, processes: int = 1
) -> pd.DataFrame:
    """Split-half and seed-to-seed agreement of importance.

    Parameters
    ----------
    importances : pairs of a run and its table 'importance', or the path of the table
    fraction : float
        Fraction of heads in a prune set.
    processes : int
        Processes that share the models and mixtures; the result is the same with any number.

    Returns
    -------
    table 'reliability'
        Kind `split_half`: even against odd folds of one run. `spearman` is the correlation r of the two
        halves; the Spearman-Brown estimate for all samples is 2r / (1 + r). Kind `seeds`: every pair
        of seeds of the same model, mixture and method. `top_overlap` is the Jaccard index of the two
        prune sets.
    """
    groups: dict[tuple[str, str, str], list[tuple[Run, pd.DataFrame | str]]] = {}
    for run, stored in importances:
        groups.setdefault((run.model, run.mixture, run.method), []).append((run, stored))
    parts = mapped(functools.partial(_of_seeds, fraction=fraction), groups.values(), processes)
    frame = pd.DataFrame(itertools.chain.from_iterable(parts), columns=list(RELIABILITY.columns))
    return frame.astype({"seed_a": "Int32", "seed_b": "Int32"})


def _of_seeds(importances: list[tuple[Run, pd.DataFrame | str]], fraction: float) -> list[dict[str, Any]]:
    """Rows of the seeds of one model, mixture and method."""
    rows: list[dict[str, Any]] = []
    run = importances[0][0]
    maps: dict[str, dict[int, NDArray[np.float64]]] = {task: {} for task in run.tasks}
    for run, stored in importances:
        frame = tables.read(stored) if isinstance(stored, str) else stored
        even = frame["fold"] % 2 == 0
        for task in run.tasks:
            maps[task][run.seed] = importance_map(frame, task)
            halves = importance_map(frame[even], task), importance_map(frame[~even], task)
            rows.append(_row(run, task, "split_half", run.seed, None) | agreement(*halves, fraction))
    for task, by_seed in maps.items():
        for a, b in itertools.combinations(sorted(by_seed), 2):
            rows.append(_row(run, task, "seeds", a, b) | agreement(by_seed[a], by_seed[b], fraction))
    return rows


def _row(run: Run, task: str, kind: str, seed_a: int, seed_b: int | None) -> dict[str, Any]:
    return {"model": run.model, "mixture": run.mixture, "method": run.method, "task": task,
            "kind": kind, "seed_a": seed_a, "seed_b": seed_b}  # fmt: skip
