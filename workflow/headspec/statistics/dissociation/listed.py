"""Whether listed heads are specific to a task, merely important, or neither."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.dissociation.analysis import KEY
from headspec.statistics.dissociation.list_masks import LISTED, NONE, RANDOM, SHARED
from headspec.statistics.dissociation.resampled import Evaluation, drawn_units
from headspec.statistics.intervals import over_seeds_and_examples
from headspec.statistics.metrics import chance, score
from headspec.statistics.resampling import bootstrap_counts, holm, resampled_scores
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]

HEAD_LISTS = Schema(
    dict.fromkeys(KEY, TEXT)
    | {"heads": TEXT, "task": TEXT, "n_pruned": INT, "n_seeds": INT, "metric": TEXT, "base": FLOAT,
       "value": FLOAT, "random": FLOAT, "shared": FLOAT, "harm": FLOAT, "harm_low": FLOAT,
       "harm_high": FLOAT, "p_value": FLOAT, "p_holm": FLOAT, "specific": FLOAT, "specific_low": FLOAT,
       "specific_high": FLOAT, "ci_over": TEXT, "at_chance": FLAG, "verdict": TEXT},
    keys=5,
)  # fmt: skip
"""Table `head_lists`: a row for each list of heads and task of a mixture; seeds combined.
tables/head_lists.parquet

heads: name of the list in `models.<name>.heads`
value: metric with the listed heads pruned
random: mean metric with random heads pruned, as many by layer
shared: metric with as many heads pruned of those most important for all tasks together
harm: `random` less `value`; the interval is that in which lists drawn at random would lie
p_value: of `harm`, if the list were one more random one
specific: mean over other tasks of the relative performance with the list less that with the shared heads,
    plus, for this task, that with the shared heads less that with the list
at_chance: whether the task is at chance with the list pruned
verdict: `specific`: `p_holm` is at most 0.05 for a harm, and the interval of `specific` lies above 0;
    `important`: only the first; else `neither`
"""


class _Scores(NamedTuple):
    """Metrics of one run's k tasks: unpruned, with the list and with the shared heads pruned; and at random.

    Attributes
    ----------
    values : (3, k)
    bootstrap : (resamples, 3, k)
    random : (draws, k)
    above : (resamples, k), with the list pruned, less chance
    """

    values: Floats
    bootstrap: Floats
    random: Floats
    above: Floats


def head_lists(
    evaluations: Iterable[Evaluation], resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """The table `head_lists`.

    Harm compares a task's metric with that under random masks, which all seeds share: if the list were one
    more of them, its difference from their mean would follow Student's t with draws − 1 degrees of freedom,
    times their standard deviation times sqrt(1 + 1 / draws), whatever examples and seeds are. p_holm corrects
    over the lists and tasks of a model, mixture and method.

    `specific` compares, task by task, with heads that all tasks need: heads that harm a task because it is
    fragile are not specific to it. Its interval is over examples, and from three seeds on over seeds.

    Parameters
    ----------
    evaluations : runs of at least two tasks, with their tables `listed` as predictions
        May be a generator. Seeds of a model, mixture and method come one after the other.
    """
    rows: list[dict[str, Any]] = []
    for key, group in itertools.groupby(evaluations, lambda e: tuple(getattr(e.run, name) for name in KEY)):
        seeds = list(group)
        run, metrics = seeds[0].run, seeds[0].metrics
        frames = [evaluation.predictions for evaluation in seeds]
        for heads, first in frames[0].groupby("heads", sort=False):
            of_seeds = [
                _scores(one, frame[frame["heads"] == heads], str(heads), resamples, seed)
                for one, frame in zip(seeds, frames, strict=True)
            ]
            n = first.loc[first["pruned"] == LISTED, "n_pruned"].iloc[0]
            names = dict(zip(KEY, key, strict=True)) | {"heads": heads}
            for task, row in zip(run.tasks, _rows(of_seeds, confidence), strict=True):
                counts = {"n_pruned": n, "n_seeds": len(seeds), "metric": metrics[task]}
                rows.append(names | {"task": task} | counts | row)
    table = pd.DataFrame(rows, columns=list(HEAD_LISTS.columns))
    table["p_holm"] = table.groupby(list(KEY))["p_value"].transform(holm)
    important = (table["p_holm"] <= 1 - confidence) & (table["harm"] > 0)
    specific = important & (table["specific_low"] > 0)
    table["verdict"] = np.select([specific, important], ["specific", "important"], "neither")
    return table


def _scores(evaluation: Evaluation, frame: pd.DataFrame, heads: str, resamples: int, seed: int) -> _Scores:
    """The metrics of one run under one list; bootstrap samples are the same for all seeds and lists."""
    run, of_tasks = evaluation.run, []
    for task in run.tasks:
        own = frame[frame["task"] == task].assign(draw=lambda rows: rows["draw"].fillna(0))
        wide = own.pivot(index=["example", "label"], columns=["pruned", "draw"], values="prediction")
        if wide.isna().any(axis=None) or not {NONE, LISTED, SHARED, RANDOM} <= set(own["pruned"]):
            raise DataError(
                f"{run.path}/listed.parquet: task '{task}' lacks predictions for the list '{heads}'"
            )
        wide = wide.sort_index()
        label = wide.index.get_level_values("label").to_numpy(dtype=float)
        numbers = wide.index.get_level_values("example").to_numpy(dtype=np.intp)
        fixed = np.stack([wide[pruned, 0].to_numpy(dtype=float) for pruned in (NONE, LISTED, SHARED)])
        drawn = wide[RANDOM].to_numpy(dtype=float).T
        metric, (source, units) = evaluation.metrics[task], drawn_units(evaluation, task, numbers)
        rng = np.random.default_rng(derive(seed, "listed heads", run.model, run.mixture, source))
        weights = bootstrap_counts(units.number, resamples, rng)[:, units.of]
        bootstrap = resampled_scores(metric, label, fixed, weights)
        above = bootstrap[:, 1] - chance(metric, label, weights)
        points, random = ([score(metric, label, each) for each in sets] for sets in (fixed, drawn))
        of_tasks.append((points, bootstrap, random, above))
    return _Scores(*(np.stack([np.asarray(each[i]) for each in of_tasks], axis=-1) for i in range(4)))


def _rows(seeds: list[_Scores], confidence: float) -> Iterable[dict[str, Any]]:
    """The columns of each of k tasks but those of names."""
    values = np.stack([one.values for one in seeds])  # (S, 3, k)
    bootstrap = np.stack([one.bootstrap for one in seeds], axis=1)  # (resamples, S, 3, k)
    draws = np.mean([one.random for one in seeds], axis=0)  # (draws, k)
    base, listed, shared = values.mean(axis=0)
    harm = draws.mean(axis=0) - listed
    p, reach = _as_one_more(harm, draws, confidence)
    specific = _specific(values)
    low, high, over = over_seeds_and_examples(specific, _specific(bootstrap), confidence)
    at_chance = [np.quantile(one.above, 1 - confidence, axis=0) <= 0 for one in seeds]
    columns = {
        "base": base, "value": listed, "random": draws.mean(axis=0), "shared": shared, "harm": harm,
        "harm_low": harm - reach, "harm_high": harm + reach, "p_value": p, "specific": specific.mean(axis=0),
        "specific_low": low, "specific_high": high, "at_chance": np.any(at_chance, axis=0),
    }  # fmt: skip
    for i in range(len(base)):
        yield {name: of_tasks[i] for name, of_tasks in columns.items()} | {"ci_over": over}


def _as_one_more(difference: Floats, draws: Floats, confidence: float) -> tuple[Floats, Floats]:
    """p of a list's difference (k,) from the mean of `draws` (D, k), and how far the interval reaches."""
    d = len(draws)
    error = draws.std(axis=0, ddof=1) * np.sqrt(1 + 1 / d)
    ratio = np.divide(np.abs(difference), error, out=np.zeros_like(error), where=error > 0)
    p = np.where(error > 0, 2 * stdtr(d - 1, -ratio), np.where(difference == 0, 1.0, 2 / (d + 1)))
    return np.minimum(p, 1), stdtrit(d - 1, (1 + confidence) / 2) * error


def _specific(values: Floats) -> Floats:
    """The column `specific` (..., k) of metrics (..., 3, k), nan where a base is not above 0."""
    base, listed, shared = np.moveaxis(values, -2, 0)
    gain = np.divide(listed - shared, base, out=np.full_like(base, np.nan), where=base > 0)
    k = gain.shape[-1]
    return (gain.sum(axis=-1, keepdims=True) - gain) / (k - 1) - gain
