"""Whether listed heads are specific to a task, merely important, or neither."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import LISTED, NONE, RANDOM, SHARED
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.chance import at_chance, below_chance
from headspec.statistics.dissociation.analysis import KEY, UNPRUNED
from headspec.statistics.dissociation.pruned import PrunedPredictions, drawn_clusters
from headspec.statistics.intervals import decisive, over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.resampling import holm, task_predictions, unique_keys
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema
from headspec.tasks.metrics import bootstrap_counts, resampled_scores, scores

Floats = NDArray[np.float64]

HEAD_LISTS = Schema(
    dict.fromkeys(KEY, TEXT)
    | {"heads": TEXT, "task": TEXT, "n_pruned": INT, "n_seeds": INT, "metric": TEXT, "base": FLOAT,
       "value": FLOAT, "random": FLOAT, "draws_low": FLOAT, "draws_high": FLOAT, "shared": FLOAT,
       "harm": FLOAT, "p_value": FLOAT, "p_corrected": FLOAT, "own": FLOAT, "own_low": FLOAT,
       "own_high": FLOAT, "others": FLOAT, "others_low": FLOAT, "others_high": FLOAT, "ci_over": TEXT,
       "p_specific": FLOAT, "p_specific_holm": FLOAT, "p_specific_seeds": FLOAT,
       "p_specific_seeds_holm": FLOAT, "at_chance": FLAG}
    | UNPRUNED
    | {"verdict": TEXT},
    keys=5,
    about={
        "heads": "name of the list",
        "value": "metric without the listed heads",
        "random": "mean metric without the same number of random heads by layer",
        "shared": "metric without the same number of heads that matter most to all tasks together",
        "harm": "`random` minus `value`",
        "p_corrected": "`p_value` corrected for lists and tasks",
        "own": "share of `base` that the task loses more without the list than without the shared heads",
        "others": "the same that other tasks lose less, on average over those whose `base` is above 0, "
            "also in every resample",
        "p_specific": "of the less certain of `own` and `others`, for these runs; 1 if one is not above 0",
        "p_specific_seeds": "the same for other seeds; null with one or two",
        "p_specific_holm": "the same, corrected",
        "p_specific_seeds_holm": "the same, corrected",
        "at_chance": "the task is at chance without the listed or the shared heads",
        "verdict": "`important`: `p_corrected` at most 0.05, the unpruned model not at chance; `specific`: "
            "also `p_specific_seeds_holm`, with one or two seeds `p_specific_holm`, at most 0.05, the task "
            "not at chance; else, or with fewer than 19 random sets, `neither`",
    },
)  # fmt: skip


class _Scores(NamedTuple):
    """Metrics of k tasks of one run: unpruned, with the list or the shared heads pruned, and random heads."""

    values: Floats  # (3, k)
    bootstrap: Floats  # (resamples, 3, k)
    random: Floats  # (draws, k)
    at_chance: NDArray[np.bool_]  # (3, k)
    below_chance: NDArray[np.bool_]  # (k,), the unpruned model


def head_lists(
    evaluations: Iterable[PrunedPredictions], resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return the table `head_lists`.

    A list is important if it harms the task more than random heads. Random masks are the same for all seeds;
    if the list were one more of them, each rank would be equally likely. With n masks p is at least
    1 / (n + 1): with fewer than 19, no list is important at 0.95.

    It is specific if it also costs this task more, and the others less, than heads that all tasks need; heads
    that harm a task because it is fragile do not. Both parts are tested over examples and, with three or more
    seeds, also over seeds, which then decides; the larger p of the two parts counts. A pruned task at chance
    says nothing, as its metric cannot fall further. No list is important to a task that the unpruned model
    has not learnt. The p of importance and of specificity are corrected over the lists and tasks of a model,
    mixture and method.

    `evaluations` are of at least two tasks, have the tables `listed` as predictions, and are sorted by model,
    mixture and method. Raises DataError if predictions are missing.
    """
    families = []
    for key, group in itertools.groupby(evaluations, lambda e: tuple(getattr(e.run, name) for name in KEY)):
        seeds = list(group)
        run, metrics = seeds[0].run, seeds[0].metrics
        frames = [evaluation.read() for evaluation in seeds]
        lists, under = [], []
        for heads, first in frames[0].groupby("heads", sort=False):
            by_seed = [
                _scores(one, frame[frame["heads"] == heads], str(heads), resamples, confidence, seed)
                for one, frame in zip(seeds, frames, strict=True)
            ]
            n = first.loc[first["pruned"] == LISTED, "n_pruned"].iloc[0]
            names = dict(zip(KEY, key, strict=True)) | {"heads": heads, "task": run.tasks, "n_pruned": n}
            counts = {"n_seeds": len(seeds), "metric": [metrics[task] for task in run.tasks]}
            lists.append(pd.DataFrame(names | counts | _columns(by_seed, confidence)))
            under.append(np.mean([np.vstack([one.values[1], one.random]) for one in by_seed], axis=0))
        family = pd.concat(lists)
        p, corrected = rank_p(np.hstack(under))
        tests = {f"{name}_holm": holm(family[name]) for name in ("p_specific", "p_specific_seeds")}
        families.append(family.assign(p_value=p, p_corrected=corrected, **tests))
    table = pd.concat(families, ignore_index=True)[list(HEAD_LISTS.columns)[:-1]]
    important = (table["p_corrected"] <= 1 - confidence) & ~table["unpruned_at_chance"]
    specific = important & (decisive(table, "p_specific") <= 1 - confidence) & ~table["at_chance"]
    return table.assign(verdict=np.select([specific, important], ["specific", "important"], "neither"))


def _scores(
    evaluation: PrunedPredictions,
    frame: pd.DataFrame,
    heads: str,
    resamples: int,
    confidence: float,
    seed: int,
) -> _Scores:
    """Return the metrics of one run with one list; bootstrap samples are the same for all seeds and lists."""
    run = evaluation.run
    by_task: list[tuple[NDArray[Any], ...]] = []
    for task in run.tasks:
        rows = frame[frame["task"] == task].assign(draw=lambda rows: rows["draw"].fillna(0))
        where = f"{run.path}/listed.parquet: task '{task}' lacks predictions for the list '{heads}'"
        sets = unique_keys(rows, ["pruned", "draw"])
        if not {NONE, LISTED, SHARED, RANDOM} <= set(rows["pruned"]):
            raise DataError(where)
        predicted = task_predictions(rows, task, sets, where)
        named = pd.MultiIndex.from_tuples([(pruned, 0) for pruned in (NONE, LISTED, SHARED)])
        fixed = predicted.prediction[sets.get_indexer(named)]
        drawn = predicted.prediction[sets.get_level_values("pruned") == RANDOM]
        metric, (source, clusters) = (
            evaluation.metrics[task],
            drawn_clusters(evaluation, task, predicted.example),
        )
        rng = np.random.default_rng(derive(seed, "listed heads", run.model, run.mixture, source))
        weights = bootstrap_counts(clusters.number, resamples, rng)[:, clusters.cluster]
        bootstrap = resampled_scores(metric, predicted.label, fixed, weights)
        floor = at_chance(metric, predicted.label, weights, bootstrap, confidence)
        points, random = (scores(metric, predicted.label, masks) for masks in (fixed, drawn))
        below = below_chance(metric, predicted.label, weights, bootstrap[:, 0], confidence)
        by_task.append((points, bootstrap, random, floor, below))
    return _Scores(*(np.stack(values, axis=-1) for values in zip(*by_task, strict=True)))


def _columns(seeds: list[_Scores], confidence: float) -> dict[str, object]:
    """Return columns (k,) of k tasks with one list, except names, p of importance and corrected p."""
    values = np.stack([one.values for one in seeds])  # (S, 3, k)
    bootstrap = np.stack([one.bootstrap for one in seeds], axis=1)  # (resamples, S, 3, k)
    draws = np.mean([one.random for one in seeds], axis=0)  # (draws, k)
    base, listed, shared = values.mean(axis=0)
    learnt = np.concatenate([values[:, 0], *bootstrap[:, :, 0]]).min(axis=0) > 0
    parts, resampled = _parts(values, learnt), _parts(bootstrap, learnt)
    low, high, over = over_seeds_and_examples(parts, resampled, confidence)
    bounded = {
        f"{name}{end}": part
        for end, both in {"": parts.mean(axis=0), "_low": low, "_high": high}.items()
        for name, part in zip(("own", "others"), both, strict=True)
    }
    floors = np.any([one.at_chance for one in seeds], axis=0)  # (3, k)
    return bounded | {
        "base": base, "value": listed, "random": draws.mean(axis=0), "draws_low": draws.min(axis=0),
        "draws_high": draws.max(axis=0), "shared": shared, "harm": draws.mean(axis=0) - listed,
        "ci_over": over,
        **{name: p.max(axis=0) for name, p in _p_above(parts, resampled).items()},
        "at_chance": floors[1:].any(axis=0), "unpruned_at_chance": floors[0],
        "below_chance": np.all([one.below_chance for one in seeds], axis=0),
    }  # fmt: skip


def _parts(values: Floats, learnt: NDArray[np.bool_]) -> Floats:
    """Return columns `own` and `others` (..., 2, k) of metrics (..., 3, k).

    `own` is nan for a task whose base is not above 0. Only tasks in `learnt` (k,), all with a base above 0,
    count in `others`, which is nan without any.
    """
    base, listed, shared = np.moveaxis(values, -2, 0)
    gain = np.divide(listed - shared, base, out=np.full_like(base, np.nan), where=base > 0)
    counted, n = np.where(learnt, gain, 0), np.broadcast_to(learnt.sum() - learnt, gain.shape)
    total = counted.sum(axis=-1, keepdims=True) - counted
    others = np.divide(total, n, out=np.full_like(gain, np.nan), where=n > 0)
    return np.stack([-gain, others], axis=-2)


def _p_above(values: Floats, bootstrap: Floats) -> dict[str, Floats]:
    """Return two-sided p (...), of these runs and for other seeds, of means above 0; 1 for other means.

    `values` are (S, ...), `bootstrap` (resamples, S, ...).
    """
    mean = values.mean(axis=0)
    reached = np.count_nonzero(~(bootstrap.mean(axis=1) > 0), axis=0)
    here = np.minimum(2 * (1 + reached) / (1 + len(bootstrap)), 1)
    seeds = p_over_seeds_and_examples(values, bootstrap)
    tests = {"p_specific": here, "p_specific_seeds": seeds}
    return {name: np.where(np.isnan(mean + p), np.nan, np.where(mean > 0, p, 1)) for name, p in tests.items()}


def rank_p(metrics: Floats) -> tuple[Floats, Floats]:
    """Return the rank p (m,) of the first row of `metrics` (1 + draws, m): the share of rows at most as high.

    The second p is corrected for the m columns by the step-down procedure of Westfall and Young (1993,
    algorithm 4.1), on standardised distances from the mean of a column: rows are exchangeable if the first is
    one more draw. Columns of several lists count as independent, as their draws are.
    """
    spread = metrics.std(axis=0)
    harm = np.divide(metrics.mean(axis=0) - metrics, spread, out=np.zeros_like(metrics), where=spread > 1e-12)
    first = harm[0] - 1e-9  # equality up to rounding counts
    order = np.argsort(-first)
    most = np.maximum.accumulate(harm[:, order[::-1]], axis=1)[:, ::-1]  # of this column and those after it
    corrected = np.empty_like(first)
    corrected[order] = np.maximum.accumulate((most >= first[order]).mean(axis=0))
    return (harm >= first).mean(axis=0), corrected
