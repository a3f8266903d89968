"""Dissociation of anyone's pruning matrix, by the functions of studies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import MEAN, NONE, RANDOM
from headspec.errors import nearest, shown
from headspec.statistics.dissociation.analysis import rows_and_case
from headspec.statistics.dissociation.counts import counted_matrices
from headspec.statistics.dissociation.given import Given, given, keyed
from headspec.statistics.dissociation.head_lists import rank_p
from headspec.statistics.dissociation.matrices import ResampledMatrix, resample_matrices
from headspec.statistics.dissociation.parts import least_p, p_specific
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.dissociation.resampled import ResampledDissociation, combine
from headspec.statistics.dissociation.scores import relative
from headspec.statistics.intervals import FEWEST, corrected
from headspec.tasks.metrics import Metric, each, mean

Floats = NDArray[np.float64]

#: columns of `dissociate`, between the model and size of a row and its interval where the same examples fail
COLUMNS = (
    "task", "n_seeds", "n", "base", "own", "others", "random", "to_others", "dissociation", "ci_low",
    "ci_high", "ci_over", "p_value", "p_holm", "p_seeds", "p_seeds_holm", "net", "net_low", "net_high",
    "p_random", "p_random_corrected", "unpruned_at_chance", "at_chance", "verdict", "p_specific", "specific",
    "why",
)  # fmt: skip
SAME = ("same_low", "same_high")


def dissociate(
    matrix: pd.DataFrame,
    *,
    chance: float | Mapping[str, float] = 0.0,
    resamples: int = 2000,
    confidence: float = 0.95,
    distinct: float = 0.10,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the dissociation of tasks in a pruning matrix, with intervals, tests and verdicts.

    D of a task is what pruning its own heads costs it more, as a share of its unpruned performance, than
    pruning those of other tasks, on average (Li et al. 2023, Eq. 6 and 7).

    Parameters
    ----------
    matrix : a row for each task that is evaluated, and list of heads that is pruned

        - task: evaluated; pruned_for: the task whose heads are pruned, 'none', 'random', or the name of a
          list of no task, which is left out
        - right, n: numbers of right answers and of answers. Or right of each example, 0 to 1, with `example`,
          its name: a row each. Or value: any metric of which more is better and 0 is the least
        - heads or fraction: how many are pruned, if they differ; seed, model, draw (of random sets)
    chance : share of right answers that needs no model, by task or of all
    resamples : number of bootstrap samples, and of permutations
    confidence : level of the intervals and verdicts, and of the test of chance
    distinct : smallest mean D at which a double dissociation is distinct
    seed : of the random numbers

    Returns
    -------
    found : DataFrame, a row for each model, size and task, then for their mean; those over all sizes, without
        a size, have the mean of D from 0 to the largest. `plot_dissociation` draws it

        - n_seeds, n: numbers of seeds and of answers
        - base, own, others, random: metric without pruning, with the task's own heads pruned, the mean with
          those of other tasks, and with random ones; to_others: mean share of their base that other tasks
          lose by this task's heads
        - dissociation, ci_low, ci_high, ci_over: D and its interval; 'unpaired' where examples are not known,
          as if lists of heads failed independently. Then same_low, same_high are the interval if all lists
          fail the same examples as far as they can; the truth is mostly in between
        - p_value, p_holm: that it makes no difference whose heads are pruned, of these runs; p_seeds,
          p_seeds_holm: that D is 0, for other seeds; corrected for the tasks of a size
        - net, net_low, net_high: D net of the strength of the task's list; none with two tasks
        - p_random: that the list is one more random set; p_random_corrected, for the tasks of a size
        - unpruned_at_chance, at_chance: whether the model is at chance without pruning, or with some pruning
        - verdict: of the mean, the case ('double, distinct', 'double', 'single', 'inverted', 'none' or
          'chance'); of a task, 'important' if its heads harm it more than random heads do, else 'neither'
        - specific: of the mean, whether lists are specific to their tasks beyond being strong lists and
          fragile tasks, at each size: the interval of D is above 0, and p_specific (sources renamed,
          one-sided) is at most 1 - confidence; none with two or three tasks, whose p is at least 0.5 or 0.17
        - why: why there is no verdict, or what it cannot say

    Raises
    ------
    ValueError
        The matrix does not fit, and the message names the row, or what is missing; or `chance`, `resamples`
        or `confidence` is out of range.

    Examples
    --------
    >>> found = headspec.dissociate(pd.read_csv("matrix.csv"))
    >>> headspec.plot_dissociation(found)
    """
    _check(chance, resamples, confidence)
    frames = []
    for one in given(matrix):
        frames.append(_of_model(one, _chances(chance, one.tasks), resamples, confidence, distinct, seed))
    found = pd.concat(frames, ignore_index=True)
    return keyed(matrix, found, [*COLUMNS, *(name for name in SAME if name in found)])


def _check(chance: float | Mapping[str, float], resamples: int, confidence: float) -> None:
    values = chance.values() if isinstance(chance, Mapping) else [chance]
    if any(not 0 <= value < 1 for value in values):
        raise ValueError(f"chance: got {shown(chance)}, expected shares from 0 to below 1")
    if resamples < 1:
        raise ValueError(f"resamples: got {resamples}, expected at least 1")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}, expected a number between 0 and 1")


def _chances(chance: float | Mapping[str, float], tasks: tuple[str, ...]) -> dict[str, float]:
    """Return the chance of each task (k,); ValueError if a given task is not in the matrix."""
    if not isinstance(chance, Mapping):
        return dict.fromkeys(tasks, float(chance))
    for name in chance:
        if name not in tasks:
            raise ValueError(f"chance: there is no task {name!r}.{nearest(name, tasks)}")
    return {task: float(chance.get(task, 0.0)) for task in tasks}


def given_matrices(
    one: Given, chance: Mapping[str, float], resamples: int, confidence: float, seed: int, same: bool = False
) -> list[ResampledMatrix]:
    """Return the matrices of the seeds of a model, resampled by example, by counts, or not at all.

    `same` is as in `counted_matrices`.
    """
    if one.rows is not None:
        metrics = {task: right_answers(chance[task]) for task in one.tasks}
        evaluations = [PrunedPredictions(run, metrics, _predictions(one, run.seed)) for run in one.runs]
        return resample_matrices(evaluations, one.sizes, resamples, confidence, seed)
    floor = np.array([chance[task] for task in one.tasks])
    if one.counted:
        unpruned, right = (values.astype(np.int64) for values in (one.unpruned("right"), one.pruned("right")))
        return counted_matrices(one.runs, unpruned, right, one.n(), floor, resamples, confidence, seed, same)
    no = np.zeros(len(one.tasks), dtype=bool)
    return [
        ResampledMatrix(run, "", base, matrix, base[None], matrix[None], matrix[None],
                        matrix.min(axis=1) <= floor, base <= floor, no, floor)
        for run, base, matrix in zip(one.runs, one.unpruned(), one.pruned(), strict=True)
    ]  # fmt: skip


def right_answers(chance: float) -> Metric:
    """Return the metric "share of right answers", of which the share `chance` needs no model."""

    def summed(label: Floats, right: Floats) -> tuple[NDArray[np.bool_], Floats]:
        return each(label), right[..., None]

    return Metric("right answers", summed, mean, lambda label: np.full(len(label), chance))


def _predictions(one: Given, seed: int) -> pd.DataFrame:
    """Return the table 'predictions' of a run, without random sets and lists of no task."""
    assert one.rows is not None
    rows = one.rows
    numbers = rows.groupby("task")["example"].transform(lambda names: pd.factorize(names, sort=True)[0])
    mine = (rows["seed"] == seed) & rows["pruned_for"].isin([NONE, *one.tasks])
    named = rows.assign(fraction=rows["size"], example=numbers, label=1.0, prediction=rows["right"])
    return named[mine]


def _of_model(
    one: Given, chance: Mapping[str, float], resamples: int, confidence: float, distinct: float, seed: int
) -> pd.DataFrame:
    """Return the rows of one model: of every size, then over all sizes if there are several."""
    settings = resamples, confidence, seed
    sampled = _combined(given_matrices(one, chance, *settings))
    nested = _combined(given_matrices(one, chance, *settings, same=True)) if one.unpaired else None
    several = len(one.sizes) > 1
    levels = [*range(len(one.sizes)), *([None] if several else [])]
    tables = []
    for level in levels:
        at = _at(sampled, one, level)
        p = np.nan if level is None else p_specific(_performance(one, level), seed)
        table = pd.DataFrame(rows_and_case(at, one.tasks, confidence, distinct, p))
        if nested:
            low, high, _ = _at(nested, one, level).with_mean().interval(confidence)
            table = table.assign(same_low=low, same_high=high)
        columns = _metrics(one, level) | _against_random(one, level)
        table = table.assign(**{name: [*values, np.nan] for name, values in columns.items()})
        for name in ("base", "own", "others", "random", "to_others"):
            table.loc[table.index[-1], name] = table[name].iloc[:-1].mean()
        table = corrected(table, table["task"] == MEAN)
        size = np.nan if level is None else one.sizes[level]
        table = table.assign(model=one.runs[0].model, size=size, n_seeds=len(one.runs))
        tables.append(_verdicts(one, table, confidence))
    return pd.concat(tables, ignore_index=True)


def _combined(matrices: list[ResampledMatrix]) -> ResampledDissociation:
    return combine([ResampledDissociation.of_matrix(one) for one in matrices])


def _at(sampled: ResampledDissociation, one: Given, level: int | None) -> ResampledDissociation:
    """Return the dissociation at one size, or over all sizes if `level` is None."""
    if level is not None:
        return sampled.at(level)
    return replace(sampled.area(one.sizes), at_chance=np.asarray(sampled.at_chance.any(axis=0)))


def _over(values: Floats, one: Given, level: int | None) -> Floats:
    """Return values (S, F, ...) at one size, averaged over seeds; nan if `level` is None."""
    by_size: Floats = values.mean(axis=0)
    if level is not None:
        at: Floats = by_size[level]
        return at
    return np.full(by_size.shape[1:], np.nan)


def _performance(one: Given, level: int | None) -> Floats:
    """Return mean relative performance over seeds, (k, k), at one size; nan if `level` is None."""
    return _over(relative(one.pruned(), one.unpruned()[:, None]), one, level)


def _metrics(one: Given, level: int | None) -> dict[str, Floats]:
    """Return columns (k,) of metrics at one size, means over seeds; nan, but for n, if `level` is None."""
    k = len(one.tasks)
    matrix = _over(one.pruned(), one, level)
    lost = 1 - _performance(one, level)
    own, to_own = np.diagonal(matrix), np.diagonal(lost)
    n = one.n() if one.counted else np.full(k, np.nan)
    return {
        "n": n, "own": own, "others": (matrix.sum(axis=0) - own) / (k - 1),
        "to_others": (lost.sum(axis=1) - to_own) / (k - 1),
    }  # fmt: skip


def _against_random(one: Given, level: int | None) -> dict[str, Floats]:
    """Return columns (k,) on random sets, and the rank of each list among them; nan without any."""
    nothing = np.full(len(one.tasks), np.nan)
    if RANDOM not in one.controls or level is None:
        return dict.fromkeys(("random", "p_random", "p_random_corrected"), nothing)
    random = _over(one.control(RANDOM), one, level)  # (draws, k)
    own = np.diagonal(_over(one.pruned(), one, level))
    p, step_down = rank_p(np.vstack([own, random]))
    return {"random": random.mean(axis=0), "p_random": p, "p_random_corrected": step_down}


def _verdicts(one: Given, table: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Add verdicts, or why there is none, and empty columns that the matrix cannot support."""
    draws, needed = len(one.controls.get(RANDOM, ())), math.ceil(round(1 / (1 - confidence), 9)) - 1
    of_task = table["task"] != MEAN
    important = (table["p_random_corrected"] <= 1 - confidence) & ~table["unpruned_at_chance"]
    verdict = pd.Series(np.where(important, "important", "neither"), table.index, dtype=object)
    why = pd.Series("", table.index)
    if draws < needed:
        verdict[of_task] = None
        sets = f"{draws} random set{'s' * (draws != 1)}: no p below {1 / (1 + draws):.2g}; " if draws else ""
        why[of_task] = f"{sets}{needed} {'' if draws else 'random sets '}are needed"
    elif table["size"].isna().all():
        verdict[of_task] = None
        why[of_task] = "random sets are compared at each size"
    case = table["case"].iloc[-1]
    verdict.iloc[-1] = f"{case}, distinct" if table["distinct"].iloc[-1] else case
    said = []
    if (least := least_p(len(one.tasks))) > 1 - confidence:
        said.append(
            f"{len(one.tasks)} tasks are too few to test whether lists are specific: no p below {least:.2g}"
        )
    elif table["size"].isna().all():
        said.append("whether lists are specific is tested at each size")
    if len(one.tasks) == 2 and case == "single":
        said.append("with two tasks it may be a stronger list of heads")
    if one.unpaired:
        table = table.assign(ci_over=table["ci_over"] + ", unpaired")
        said.append("counts do not show which examples fail")
    if not one.counted:
        enough = len(one.runs) >= FEWEST
        bounds = [] if enough else ["ci_low", "ci_high", "net_low", "net_high"]
        table = table.assign(**dict.fromkeys(["p_value", "p_holm", *bounds], np.nan))
        table = table.assign(ci_over="seeds" if enough else None)
        if not enough:
            verdict.iloc[-1] = None
            table["specific"] = None
            said = [f"neither n, examples nor {FEWEST} seeds: no interval"]
    why.iloc[-1] = "; ".join(said)
    return table.assign(verdict=verdict, why=why)
