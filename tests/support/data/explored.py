"""Results of a study for the explorer, of any size, written as tables without running it."""

from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pandas as pd

from headspec import tables
from headspec.explorer import heads
from support.figures import made
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
ROLES = ["positional", "syntactic", "rare word", "none"]


def study(results: Path, tasks=("sentiment", "topic", "reviews"), shape=(3, 4), seeds=2, kinds=None) -> Path:
    """Tables of all pairs of `tasks`, tuned and frozen, with random numbers.

    All runs are in the head atlas. Folders of mixtures have names of their own, as a path has no room for
    every task's. `kinds` are the layers of each kind of attention of a model that has several.
    """
    footer = FOOTER | ({"attention": {"model": kinds}} if kinds else {})
    places = dict(layer=range(shape[0]), head=range(shape[1]))
    frames: dict[str, list[pd.DataFrame]] = {}
    for draw, ((place, pair), method) in enumerate(
        product(enumerate(combinations(tasks, 2)), ("tuned", "frozen"))
    ):
        run = dict(model="model", mixture=f"pair{place}", method=method)
        found = _atlas(draw, run, list(pair), places, seeds)
        for name, frame in (found | _dissociation(draw, run, list(pair), place, seeds)).items():
            frames.setdefault(name, []).append(frame)
        for seed in range(seeds):
            folder = results / "runs" / "model" / run["mixture"] / method / f"seed{seed}"
            _run(folder, seeds * draw + seed, list(pair), places, footer)
    frames |= _other(run | {"n_seeds": seeds, "metric": "accuracy"}, list(pair))
    pairs = [dict(task_a=a, task_b=b) for a, b in combinations(tasks, 2)]
    frames["similarity"] = [made("similarity", **ends, model="model", measure="text") for ends in pairs]
    frames["correlation"] = [made("correlation", model=["model"], measure="text", n_pairs=len(pairs))]
    frames |= _grouping(tasks, seeds)
    if kinds:  # roles are of self-attention alone
        roles = pd.concat(frames["head_roles"])
        frames["head_roles"] = [roles[roles["layer"] < shape[0] - kinds["cross"]]]
    for name, parts in frames.items():
        tables.write(results / "tables" / f"{name}.parquet", SCHEMAS[name], pd.concat(parts), footer)
    return results


def _dissociation(draw, run, pair, place, seeds) -> dict[str, pd.DataFrame]:
    """Tables of D; a frozen model of the first pair has learnt nothing of its first task."""
    rows = run | dict(task=[*pair, "mean"], n_seeds=seeds, ci_over="examples", unpruned_at_chance=False)
    fractions = made("fractions", draw, **rows, fraction=list(FRACTIONS))
    combined = made("combined", draw, **rows, fraction=FRACTIONS[1], distinct=None)
    mean = combined["task"] == "mean"
    combined.loc[mean, "case"] = "none"
    if run["method"] == "frozen" and place == 0:
        for table in (fractions, combined):
            table.loc[table["task"] != pair[1], "unpruned_at_chance"] = True
        combined.loc[mean, "case"] = "chance"
    known = dict(seed=range(seeds), task=pair, metric="accuracy", chance=0.55)
    return {
        "fractions": fractions,
        "combined": combined,
        "dissociation": made("dissociation", **run, **known),
    }


def _other(run, pair) -> dict[str, list[pd.DataFrame]]:
    """Tables of IAT, gates, sharing and probes of the last pair."""
    known = run | dict(heads="best")
    return {
        "improvement": [
            made("improvement", **run | {"method": "iat"}, task=pair, against="tuned"),
            made("improvement", **run | {"method": "tuned"}, task=pair, difference=None),
        ],
        "budgets": [
            made("budgets", **run, scope="per_task", way="l0", fraction=0.5, task=pair, against="whole")
        ],
        "sharing": [made("sharing", **run | {"mixture": "pair0"}, task=pair)],
        "probes": [made("probes", **known, task=pair), made("probes", **known, task=pair[0], label="NOUN")],
    }


def _grouping(tasks, seeds) -> dict[str, list[pd.DataFrame]]:
    """Gains of all pairs, and predictions of them."""
    base = dict(model="model", metric="accuracy", n_seeds=seeds)
    gains = [
        made("sharing", **base, mixture=t, method="single", task=t, value=0.8, difference=None) for t in tasks
    ]
    predictions, scores = [], []
    for draw, (a, b) in enumerate(combinations(tasks, 2)):
        pair = made("sharing", draw, **base, mixture=f"{a}+{b}", method="tuned", task=[a, b])
        gains.append(pair.assign(difference=pair["difference"] - 0.5))
    for predictor, held_out in PREDICTED:
        key = dict(model="model", predictor=predictor, held_out=held_out)
        scores.append(made("gain_prediction_scores", len(scores), **key, n_tasks=len(tasks)))
        for a, b in permutations(tasks, 2):
            predictions.append(made("gain_predictions", len(predictions), **key, source=a, target=b))
    return {"gains": gains, "gain_predictions": predictions, "gain_prediction_scores": scores}


def _atlas(draw, run, pair, places, seeds) -> dict[str, pd.DataFrame]:
    """Tables of the head atlas of one model, mixture and method; of a ranking what it can have."""
    rng = np.random.default_rng(draw)
    roles = made("head_roles", draw, **run, **places, seed=range(seeds), offset=-1)
    role = rng.choice(ROLES, len(roles) // seeds, p=[0.1, 0.15, 0.05, 0.7])
    roles["role"] = np.repeat(role, seeds)  # the seed changes fastest
    relations = rng.choice(["obj", "nsubj", HOSTILE[1]], len(roles))
    roles["relation"] = np.where(roles["role"] == "syntactic", relations, None)
    measures = ["importance", "ablation_size", "relevance", "confidence"]
    differences = made(
        "task_differences", draw, **run, **places, task=pair[0], against=pair[1], measure=measures
    )
    curves = dict(ranking=list(RANKINGS), order=["top", "bottom"], fraction=list(np.linspace(0, 1, 11)))
    belief = made(
        "belief", draw, **run, task=[*pair, "mean"], ranking=list(RANKINGS), unpruned_at_chance=False
    )
    for start, lacking in (("difference", 1), ("dissociation", 2), ("ablation", 2)):
        none = belief["ranking"].isin(["random", "importance_all"][:lacking])
        belief.loc[none, [column for column in belief if column.startswith(start)]] = np.nan
    agreements = [
        made("agreement", i, **run, task=pair, measure_a=a, measure_b=b)
        for i, (a, b) in enumerate(combinations(MEASURES, 2))
    ]
    return {
        "heads": made(
            "heads", draw, **run, **places, seed=range(seeds), task=pair, measure=list(MEASURES), n=40
        ),
        "head_roles": roles,
        "task_differences": differences.assign(difference=differences["difference"] - 0.5),
        "pruning_curves": made("pruning_curves", draw, **run, **curves, task=pair, metric="accuracy"),
        "belief": belief,
        "agreement": pd.concat(agreements),
    }


def _run(folder, draw, pair, places, footer) -> None:
    """The tables of one run."""
    importance = made("importance", draw, task=pair, fold=range(2), **places, n=10)
    tables.write(folder / "importance.parquet", SCHEMAS["importance"], importance, footer)
    base = dict(task=pair, metric="accuracy", n=100)
    parts = [made("pruning", **base, pruned_for="none", fraction=0.0, n_pruned=0)]
    total = len(places["layer"]) * len(places["head"])
    for i, fraction in enumerate(FRACTIONS):
        cut = dict(pruned_for=pair, order="top", fraction=fraction, n_pruned=int(fraction * total))
        parts.append(made("pruning", 3 * draw + i, **base, **cut))
    random = dict(pruned_for="random", order=None, fraction=FRACTIONS[1], draw=range(3), n=40)
    parts.append(made("pruning", draw, **base | random, n_pruned=int(FRACTIONS[1] * total)))
    tables.write(folder / "pruning.parquet", SCHEMAS["pruning"], pd.concat(parts), footer)
