"""Whether IAT makes a better model: every way of training against plain multi-task training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.comparison import MEAN, compare, predicted
from headspec.intervals import over_seeds_and_examples
from headspec.metrics import score
from headspec.resampling import holm, p_value
from headspec.runs import Run, Variant
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

# heads: what a task's batches moved in the end of training; it, alpha, delta: null for plain training
IAT = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "sampling": TEXT, "seed": INT, "task": TEXT,
     "metric": TEXT, "value": FLOAT, "heads": TEXT, "alpha": FLOAT, "delta": FLOAT},
    keys=7,
)  # fmt: skip
# against: what a method is compared with, null for plain training; task and metric "mean": the mean over
# tasks of the mean over metrics; ci_over: "examples" or "seeds and examples"
IMPROVEMENT = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "metric": TEXT, "against": TEXT,
     "sampling": TEXT, "heads": TEXT, "alpha": FLOAT, "delta": FLOAT, "n_seeds": INT, "value": FLOAT,
     "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT,
     "p_holm": FLOAT},
    keys=5,
)  # fmt: skip

Floats = NDArray[np.float64]

#: the method of a task's run of its own
SINGLE = "single"
#: what a row of the table `improvement` is about
ROW = ["model", "mixture", "method", "task", "metric"]


def kind(method: str, variants: Sequence[Variant]) -> Variant:
    """The variant that `method` names; training of a task alone, where none does."""
    others = [Variant(method=method, base=method, sampling=variants[0].sampling)]
    return next(v for v in [*variants, *others] if v.method == method)


def scores(
    runs: Iterable[tuple[Run, pd.DataFrame]],
    variants: Sequence[Variant],
    metrics: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """The table `iat`: every metric of every task of every run.

    Parameters
    ----------
    runs : a run, and its table `evaluation`
    variants : what runs other than of tasks alone are
    metrics : task: names of its metrics
    """
    rows = []
    for run, predictions in runs:
        own = kind(run.method, variants)
        for task, part in predictions.groupby("task", sort=False):
            for metric in metrics[str(task)]:
                value = score(metric, part["label"].to_numpy(), part["prediction"].to_numpy())
                rows.append(
                    (run.model, run.mixture, run.method, own.sampling, run.seed, task, metric, value)
                    + (own.heads, own.alpha, own.delta)
                )
    return pd.DataFrame(rows, columns=list(IAT.columns))


def against(variants: Sequence[Variant]) -> dict[str, str]:
    """Method: the method that it is compared with.

    That is the plain training that it goes on from. Plain training with another sampling and
    training of the tasks alone are compared with the first of `variants`, which itself is compared
    with nothing.
    """
    plain = variants[0].method
    others = {v.method: v.base if v.heads else plain for v in variants if v.method != plain}
    return others | {SINGLE: plain}


def by_seed(
    table: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], variants: Sequence[Variant]
) -> pd.DataFrame:
    """Every seed's value, and its difference to what it is compared with.

    Parameters
    ----------
    table : table `iat`
    mixtures : mixture: its tasks, whose runs alone together are its method `single`
    variants : the ways of training, plain training first

    Returns
    -------
    frame : `ROW`, seed, value, against, difference; of tasks, and of their leaderboard mean
    """
    parts = []
    for mixture, tasks in mixtures.items():
        alone = (table["method"] == SINGLE) & table["mixture"].isin(tasks)
        together = (table["method"] != SINGLE) & (table["mixture"] == mixture)
        parts.append(table[alone | together].assign(mixture=mixture))
    frame = pd.concat(parts)[[*ROW, "seed", "value"]]
    run = ["model", "mixture", "method", "seed"]
    means = frame.groupby([*run, "task"])["value"].mean().groupby(run).mean().reset_index()
    frame = pd.concat([frame, means.assign(task=MEAN, metric=MEAN)], ignore_index=True)
    others = frame.rename(columns={"method": "against", "value": "other"})
    frame["against"] = frame["method"].map(against(variants))
    frame = frame.merge(others, how="left", on=["model", "mixture", "against", "seed", "task", "metric"])
    return frame.assign(difference=frame["value"] - frame["other"]).drop(columns="other")


def improvement(
    table: pd.DataFrame,
    runs: Sequence[Run],
    read: Callable[[Run], pd.DataFrame],
    variants: Sequence[Variant],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """The table `improvement`: every method against what it is compared with (see `against`).

    ci_low, ci_high: over seeds and examples, or with one or two seeds over examples, as ci_over says
    (see `headspec.intervals`). p_value: by permutation of these models' predictions (see `compare`).
    p_holm: corrected, of a task over the
    tasks and metrics of the same model, mixture and method; of the mean over the methods of the same
    model and mixture, so that the best of a sweep is judged as the best of many.

    Parameters
    ----------
    table : table `iat`
    runs : all runs in it
    read : run: its table `evaluation`; asked for one model and mixture at a time
    variants : the ways of training, plain training first
    metrics : task: names of its metrics
    seed : every model, mixture, method and task draws from it by name
    """
    mixtures = {run.mixture: run.tasks for run in runs if run.method != SINGLE}
    others = against(variants)
    distributions: dict[tuple[Any, ...], tuple[Floats, Floats]] = {}
    for model, mixture in dict.fromkeys((run.model, mixture) for run in runs for mixture in mixtures):
        found = {}
        for method in (variants[0].method, *others):
            of = mixtures[mixture] if method == SINGLE else (mixture,)
            own = [r for r in runs if r.model == model and r.method == method and r.mixture in of]
            found[method] = predicted((run, read(run)) for run in own)
        for method, other in others.items():
            own_seed = derive(seed, "improvement", model, mixture, method)
            pair = compare(found[method], found[other], metrics, resamples, own_seed)
            distributions |= {(model, mixture, method, *key): value for key, value in pair.items()}
    rows: list[dict[str, Any]] = []
    for key, part in by_seed(table, mixtures, variants).groupby(ROW):
        row: dict[str, Any] = dict(zip(ROW, key, strict=True))
        variant = kind(row["method"], variants)
        row |= {name: getattr(variant, name) for name in ("sampling", "heads", "alpha", "delta")}
        row |= {"n_seeds": len(part), "value": part["value"].mean()}
        if key in distributions:
            samples, null = distributions[key]
            row |= {"against": others[row["method"]], "difference": part["difference"].mean()}
            found_interval = over_seeds_and_examples(part["difference"].to_numpy(), samples, confidence)
            row["ci_low"], row["ci_high"], row["ci_over"] = found_interval
            row["p_value"] = float(p_value(row["difference"], null))
        rows.append(row)
    result = pd.DataFrame(rows, columns=list(IMPROVEMENT.columns))
    family = result["method"].where(result["task"] != MEAN, MEAN)
    groups = result.groupby(["model", "mixture", family])
    return result.assign(p_holm=groups["p_value"].transform(holm))
