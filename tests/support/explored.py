"""Results of a study for the explorer, of any size, written as tables without running it."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from headspec import tables
from headspec.pipeline.outputs import schemas

#: names of tasks that would be code, or disturb what is beside them, were they not text
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"quoted\" 'n' <b>&amp;",
    "\u202eright\u200fto left",
    "n" * 200,
)
FRACTIONS = (0.1, 0.3, 0.5)


def study(results: Path, tasks=("sentiment", "topic", "reviews"), shape=(3, 4), seeds=2) -> Path:
    """Tables of all pairs of `tasks`, tuned and frozen, with random numbers.

    Folders of mixtures have names of their own, as a path has no room for every task's.
    """
    rng = np.random.default_rng(0)
    written: dict[str, list] = {"combined": [], "fractions": [], "dissociation": []}
    for place, pair in enumerate(combinations(tasks, 2)):
        for method in ("tuned", "frozen"):
            run = {"model": "model", "mixture": f"pair{place}", "method": method}
            for seed in range(seeds):
                _run(results, run, pair, shape, seed, rng)
                for task in pair:
                    written["dissociation"].append(run | {"seed": seed, "task": task, "metric": "accuracy"})
            for task in (*pair, "mean"):
                for fraction in FRACTIONS:
                    d = rng.normal(0.05, 0.03)
                    row = run | {"task": task, "n_seeds": seeds, "fraction": fraction, "dissociation": d}
                    row |= {"ci_low": d - 0.02, "ci_high": d + 0.02, "ci_over": "examples", "p_value": 0.1}
                    row |= {"at_chance": bool(rng.random() < 0.2)}
                    written["fractions"].append(row)
                    if fraction == FRACTIONS[1]:
                        more = {"p_holm": 0.2, "distinct": None, "case": "none" if task == "mean" else None}
                        written["combined"].append(row | more)
    last = run | {
        "n_seeds": seeds,
        "metric": "accuracy",
        "difference": 0.01,
        "ci_low": -0.01,
        "ci_high": 0.03,
    }
    last |= {"p_holm": 0.5, "value": 0.8}
    written["improvement"] = [last | {"method": "iat", "task": task, "against": "tuned"} for task in pair]
    written["budgets"] = [
        last | {"sets": "own", "way": "l0", "fraction": 0.5, "task": task, "against": "whole"}
        for task in pair
    ]
    written["sharing"] = [last | {"task": task, "mixture": "pair0"} for task in pair]
    known = {"heads": "best", "accuracy": 0.6, "accuracy_low": 0.5, "accuracy_high": 0.7, "control": 0.4}
    known |= {"selectivity": 0.2, "selectivity_low": 0.1, "selectivity_high": 0.3}
    written["probes"] = [run | known | {"task": task, "label": None} for task in pair]
    written["probes"] += [run | known | {"task": pair[0], "label": "NOUN"}]
    written["similarity"] = [
        {"model": "model", "measure": "text", "task_a": a, "task_b": b, "similarity": 0.5, "subject": None}
        for a, b in combinations(tasks, 2)
    ]
    written["agreement"] = [
        run | {"task": task, "measure_a": "importance", "measure_b": "ablation", "spearman": 0.3}
        for task in pair
    ]
    for name, rows in written.items():
        _write(results / "tables" / f"{name}.parquet", name, pd.DataFrame(rows))
    return results


def _run(results, run, pair, shape, seed, rng) -> None:
    """The tables of one run."""
    folder = results / "runs" / run["model"] / run["mixture"] / run["method"] / f"seed{seed}"
    grid = pd.MultiIndex.from_product([pair, range(2), range(shape[0]), range(shape[1])])
    frame = pd.DataFrame(grid.tolist(), columns=["task", "fold", "layer", "head"])
    frame = frame.assign(importance=rng.random(len(frame)), n=10, fisher=0.0)
    _write(folder / "importance.parquet", "importance", frame)
    total, rows = shape[0] * shape[1], []
    for task in pair:
        base = {"task": task, "metric": "accuracy", "n": 100}
        rows.append(base | {"pruned_for": "none", "fraction": 0.0, "n_pruned": 0, "value": 0.9})
        for fraction in FRACTIONS:
            cut = {"fraction": fraction, "n_pruned": int(fraction * total)}
            rows += [
                base | cut | {"pruned_for": owner, "order": "top", "value": rng.uniform(0.5, 0.9)}
                for owner in pair
            ]
    _write(folder / "pruning.parquet", "pruning", pd.DataFrame(rows))


def _write(path: Path, name: str, frame: pd.DataFrame) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = schemas()[name]
    tables.write(path, schema, frame.reindex(columns=list(schema.columns)), {"study": HOSTILE[0]})
