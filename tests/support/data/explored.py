"""Results of a study for the explorer, of any size, written as tables without running it."""

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd

from headspec import tables
from headspec.explorer import heads
from support.schemas import SCHEMAS

#: names of tasks that would be code, or disturb what is beside them, were they not text
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"quoted\" 'n' <b>&amp;",
    "\u202eright\u200fto left",
    "n" * 200,
)
FRACTIONS = (0.1, 0.3, 0.5)
#: what the files say of their origin
FOOTER = {"study": HOSTILE[0], "versions": {"headspec": "1.0", HOSTILE[1]: "2.0"}}
#: measures of heads, some of which the page leaves out, and orders of pruning
MEASURES = ("importance", *heads.MEASURES, "entropy", "token_importance")
RANKINGS = ("importance", "importance_all", "rescored", "relevance", "ablation", "confidence", "random")
PREDICTED = [(name, held_out) for held_out in (1, 2) for name in ("head-fisher", "baseline+all")]
ROLES = ("positional", "syntactic", "rare word", "none")


def study(results: Path, tasks=("sentiment", "topic", "reviews"), shape=(3, 4), seeds=2, kinds=None) -> Path:
    """Tables of all pairs of `tasks`, tuned and frozen, with random numbers.

    All runs are in the head atlas. Folders of mixtures have names of their own, as a path has no room for
    every task's. `kinds` are the layers of each kind of attention of a model that has several.
    """
    footer = FOOTER | ({"attention": {"model": kinds}} if kinds else {})
    rng = np.random.default_rng(0)
    written: dict[str, list] = {"combined": [], "fractions": [], "dissociation": []}
    measured: dict[str, list] = {}
    for place, pair in enumerate(combinations(tasks, 2)):
        for method in ("tuned", "frozen"):
            run = {"model": "model", "mixture": f"pair{place}", "method": method}
            for name, frame in _atlas(run, pair, shape, seeds, rng).items():
                measured.setdefault(name, []).append(frame.assign(**run))
            for seed in range(seeds):
                _run(results, run, pair, shape, seed, rng, footer)
                for task in pair:
                    written["dissociation"].append(
                        run | {"seed": seed, "task": task, "metric": "accuracy", "chance": 0.55}
                    )
            for task in (*pair, "mean"):
                for fraction in FRACTIONS:
                    d = rng.normal(0.05, 0.03)
                    row = run | {"task": task, "n_seeds": seeds, "fraction": fraction, "dissociation": d}
                    row |= {"ci_low": d - 0.02, "ci_high": d + 0.02, "ci_over": "examples", "p_value": 0.1}
                    nothing = method == "frozen" and place == 0 and task != pair[1]
                    row |= {"at_chance": bool(rng.random() < 0.2), "unpruned_at_chance": nothing}
                    written["fractions"].append(row)
                    if fraction == FRACTIONS[1]:
                        more = {
                            "p_holm": 0.2,
                            "distinct": None,
                            "case": ("chance" if nothing else "none") if task == "mean" else None,
                        }
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
    plain = {"difference": None, "ci_low": None, "ci_high": None, "p_holm": None, "value": 0.79}
    written["improvement"] += [last | plain | {"method": "tuned", "task": task} for task in pair]
    written["budgets"] = [
        last | {"scope": "per_task", "way": "l0", "fraction": 0.5, "task": task, "against": "whole"}
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
    written |= _grouping(tasks, seeds, rng)
    for name, rows in written.items():
        _write(results / "tables" / f"{name}.parquet", name, pd.DataFrame(rows), footer)
    for name, frames in measured.items():
        frame = pd.concat(frames)
        if name == "head_roles" and kinds:
            frame = frame[frame["layer"] < shape[0] - kinds["cross"]]  # those of self-attention alone
        _write(results / "tables" / f"{name}.parquet", name, frame, footer)
    return results


def _grouping(tasks, seeds, rng) -> dict[str, list]:
    """Gains of all pairs, and predictions of them."""
    base = {"model": "model", "metric": "accuracy", "n_seeds": seeds, "unpruned_at_chance": False}
    gains = [base | {"mixture": task, "method": "single", "task": task, "value": 0.8} for task in tasks]
    predictions, scores = [], []
    for (a, b), (target, source) in (
        (pair, ends) for pair in combinations(tasks, 2) for ends in (pair, pair[::-1])
    ):
        gain = rng.normal(0, 0.02)
        row = base | {"mixture": f"{a}+{b}", "method": "tuned", "task": target, "value": 0.8 + gain}
        row |= {"difference": gain, "ci_low": gain - 0.02, "ci_high": gain + 0.02, "ci_over": "examples"}
        gains.append(row | {"p_holm": rng.random() ** 3, "unpruned_at_chance": bool(rng.random() < 0.1)})
        for predictor, held_out in PREDICTED:
            key = {"model": "model", "predictor": predictor, "held_out": held_out}
            key |= {"source": source, "target": target, "gain": gain}
            predictions.append(key | {"predicted": 0.5 * gain + rng.normal(0, 0.005)})
    for predictor, held_out in PREDICTED:
        key = {"model": "model", "predictor": predictor, "held_out": held_out, "n_tasks": len(tasks)}
        numbers = _around("spearman", rng.uniform(-0.2, 0.8)) | {"right_side": 0.6}
        scores.append(key | numbers | {"p_value": 0.01, "p_holm": rng.choice([0.02, 0.2])})
    return {"gains": gains, "gain_predictions": predictions, "gain_prediction_scores": scores}


def _atlas(run, pair, shape, seeds, rng) -> dict[str, pd.DataFrame]:
    """Tables of the head atlas of one model, mixture and method: a few heads matter, ablating some helps."""
    total = shape[0] * shape[1]
    places = {
        "layer": np.repeat(np.arange(shape[0]), shape[1]),
        "head": np.tile(np.arange(shape[1]), shape[0]),
    }
    values, maps = [], {}
    for task, measure in product(pair, MEASURES):
        base = maps[task, measure] = rng.lognormal(-4.5, 1, total) - 0.006 * ("ablation" in measure)
        if "confidence" in measure:
            base = rng.beta(2, 5, total)
        for seed in range(seeds):
            value = base * rng.normal(1, 0.1, total)
            ends = {"ci_low": value - 0.003, "ci_high": value + 0.003}
            frame = pd.DataFrame(places | ends | {"value": value, "seed": seed, "n": 40})
            values.append(frame.assign(task=task, measure=measure))
    role = rng.choice(len(ROLES), total, p=[0.1, 0.15, 0.05, 0.7])
    roles = pd.DataFrame(places).assign(role=np.array(ROLES)[role], rate=0.6, offset=-1)
    roles["relation"] = np.where(role == 1, rng.choice(["obj", "nsubj", HOSTILE[1]], total), None)
    differences = []
    for measure in ("importance", "ablation_size", "relevance", "confidence"):
        frame = pd.DataFrame(places).assign(task=pair[0], against=pair[1], measure=measure)
        frame["difference"] = maps[pair[0], measure] - maps[pair[1], measure]
        differences.append(frame.assign(p_holm=rng.random(total) ** 3))
    curves, beliefs, agreements = [], [], []
    for task, ranking, order in product(pair, RANKINGS, ("top", "bottom")):
        speed = rng.uniform(2, 5) if order == "top" else rng.uniform(1.1, 1.5)
        row = {"task": task, "ranking": ranking, "order": order, "metric": "accuracy"}
        for fraction in np.linspace(0, 1, 11):
            value = 0.5 + 0.4 / (1 + np.exp(12 * (fraction - 1 / speed)))
            spread = 0.3 * fraction * (1 - fraction) if ranking == "random" else np.nan
            ends = {"draws_low": value - spread, "draws_high": value + spread}
            curves.append(row | ends | {"fraction": fraction, "value": value})
    for task, ranking in product((*pair, "mean"), RANKINGS):
        row = {"task": task, "ranking": ranking} | _around("area", rng.uniform(0.55, 0.75))
        if ranking != "random":
            row |= _around("difference", row["area"] - 0.7) | {"difference_p_holm": rng.choice([0.01, 0.3])}
        if ranking not in ("random", "importance_all"):
            row |= _around("dissociation", rng.normal(0.05, 0.05)) | {"at_chance": bool(rng.random() < 0.3)}
            row |= {"dissociation_p_holm": rng.choice([0.01, 0.3])}
            row |= _around("ablation_spearman", rng.uniform(-0.3, 0.9))
            row |= _around("ablation_size_spearman", rng.uniform(-0.3, 0.9))
        beliefs.append(row)
    for task, (a, b) in product(pair, combinations(MEASURES, 2)):
        row = {"task": task, "measure_a": a, "measure_b": b} | _around("spearman", rng.uniform(-0.6, 0.9))
        agreements.append(row | _around("top_overlap", rng.uniform(0.1, 0.8)))
    return {
        "heads": pd.concat(values),
        "head_roles": pd.concat([roles.assign(seed=seed) for seed in range(seeds)]),
        "task_differences": pd.concat(differences),
        "pruning_curves": pd.DataFrame(curves),
        "belief": pd.DataFrame(beliefs),
        "agreement": pd.DataFrame(agreements),
    }


def _around(name: str, value: float) -> dict[str, float]:
    return {name: value, f"{name}_low": value - 0.02, f"{name}_high": value + 0.02}


def _run(results, run, pair, shape, seed, rng, footer) -> None:
    """The tables of one run."""
    folder = results / "runs" / run["model"] / run["mixture"] / run["method"] / f"seed{seed}"
    grid = pd.MultiIndex.from_product([pair, range(2), range(shape[0]), range(shape[1])])
    frame = pd.DataFrame(grid.tolist(), columns=["task", "fold", "layer", "head"])
    frame = frame.assign(importance=rng.random(len(frame)), n=10, fisher=0.0)
    _write(folder / "importance.parquet", "importance", frame, footer)
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
    _write(folder / "pruning.parquet", "pruning", pd.DataFrame(rows), footer)


def _write(path: Path, name: str, frame: pd.DataFrame, footer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = SCHEMAS[name]
    tables.write(path, schema, frame.reindex(columns=list(schema.columns)), footer)
