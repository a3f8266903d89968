"""Paired comparison of two training methods on the same examples and seeds, and its power."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from headspec import per_example
from headspec.config.runs import Run
from headspec.config.values import MEAN
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.chance import learnt_nothing
from headspec.statistics.intervals import (
    FEWEST,
    Components,
    components,
    p_of_moments,
    tested,
)
from headspec.statistics.resampling import paired_differences
from headspec.tasks.metrics import scores

Floats = NDArray[np.float64]
Key = tuple[str, str]  # task and metric


@dataclass(frozen=True)
class Predicted:
    """Predictions of S seeds for the same n examples of a task."""

    run: Run  # of the first seed
    example: Floats  # (n,)
    label: Floats  # (n,) or (n, values)
    prediction: Floats  # (S, n) or (S, n, values)

    def check_like(self, other: Predicted, task: str) -> None:
        """Raise `DataError` unless `other` has the same examples, labels and number of seeds."""
        for name in ("example", "label"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                raise DataError(
                    f"{other.run.path}/evaluation.parquet: validation examples of task '{task}' differ "
                    f"from those of {self.run.path}"
                )
        if len(self.prediction) != len(other.prediction):
            raise DataError(
                f"the number of seeds with task '{task}' differs between {self.run.path} and {other.run.path}"
            )


def predicted(evaluations: Iterable[tuple[Run, pd.DataFrame]]) -> dict[str, Predicted]:
    """Return the predictions of all seeds, by task, from their runs in order with tables `evaluation`.

    Raises DataError if runs differ in the examples or labels of a task.
    """
    seeds: dict[str, list[Predicted]] = defaultdict(list)
    for run, frame in evaluations:
        for task, rows in frame.groupby("task", sort=False):
            rows = rows.sort_values("example")
            label, prediction = per_example.labels_and_predictions(rows)
            seeds[str(task)].append(
                Predicted(run, rows["example"].to_numpy(dtype=float), label, prediction[None])
            )
            seeds[str(task)][0].check_like(seeds[str(task)][-1], str(task))
    return {
        task: replace(runs[0], prediction=np.concatenate([one.prediction for one in runs]))
        for task, runs in seeds.items()
    }


def mean_over_tasks(values: Mapping[tuple[str, str], Floats]) -> Floats:
    """Return the mean over tasks of the mean over each task's metrics (GLUE, Wang et al. 2018).

    Keys are (task, metric). A further split counts as a task: with MNLI matched and mismatched, GLUE without
    WNLI has nine tasks, as in the tables of Devlin et al. (2019) and Li et al. (2023), which have one metric
    per task (F1 for MRPC and QQP, Spearman's correlation for STS-B). The score of the GLUE server instead
    averages both metrics of a task, counts MNLI once, and includes WNLI.
    """
    by_task: dict[str, list[Floats]] = defaultdict(list)
    for (task, _), value in values.items():
        by_task[task].append(value)
    mean: Floats = np.mean([np.mean(metrics, axis=0) for metrics in by_task.values()], axis=0)
    return mean


def compare(
    method: Mapping[str, Predicted],
    base: Mapping[str, Predicted],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    seed: int,
) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """Return bootstrap and null distribution of the difference between two methods with the same S seeds.

    They are (resamples, S), and (resamples,) for the mean over seeds, by (task, metric); the leaderboard mean
    is (`MEAN`, `MEAN`). Raises DataError if tasks, examples, labels or numbers of seeds differ.

    In the bootstrap, examples are drawn with replacement, the same for both methods and all seeds, and
    independently for each task. If the methods disagree on only a handful of examples, intervals are too
    narrow and may end at 0; the p-value remains valid.

    Under the null hypothesis, predictions of the methods are swapped in random examples, in all seeds. The
    hypothesis is that *these* trained models do equally well on other examples; it says nothing about other
    seeds.
    """
    samples, nulls = {}, {}
    for task in dict.fromkeys([*method, *base]):
        if task not in method or task not in base:
            having, lacking = (method, base) if task in method else (base, method)
            path = next(iter(lacking.values())).run.path
            raise DataError(f"{path}/evaluation.parquet: no task '{task}', which {having[task].run.path} has")
        one, other = method[task], base[task]
        one.check_like(other, task)
        for metric in metrics[task]:
            rng = np.random.default_rng(derive(seed, task))  # the same draws for every metric
            samples[task, metric], null = paired_differences(
                metric, one.label, one.prediction, other.prediction, resamples, rng
            )
            nulls[task, metric] = null.mean(axis=1)
    for distributions in (samples, nulls):
        distributions[MEAN, MEAN] = mean_over_tasks(distributions)
    return {key: (samples[key], nulls[key]) for key in samples}


def values_of(
    predictions: Mapping[str, Predicted], metrics: Mapping[str, Sequence[str]]
) -> dict[Key, Floats]:
    """Return metrics by seed, (S,), and their mean over tasks if there are several."""
    values = {
        (task, metric): scores(metric, one.label, one.prediction)
        for task, one in predictions.items()
        for metric in metrics[task]
    }
    return values | ({(MEAN, MEAN): mean_over_tasks(values)} if len(predictions) > 1 else {})


def unlearnt(predictions: Mapping[str, Predicted], metrics: Mapping[str, Sequence[str]]) -> dict[Key, bool]:
    """Return whether a seed's model is no better than a constant prediction; for the mean, at all tasks."""
    marks = {
        (task, metric): any(learnt_nothing(metric, one.label, seed) for seed in one.prediction)
        for task, one in predictions.items()
        for metric in metrics[task]
    }
    return marks | {(MEAN, MEAN): all(marks.values())}


def comparison_rows(
    here: Mapping[str, Predicted],
    there: Mapping[str, Predicted],
    metrics: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> Iterator[dict[str, object]]:
    """Yield columns for each task and metric, and the mean of several tasks, of two methods compared.

    They are task, metric, n_seeds, value (mean over seeds), between_seeds (standard deviation), and
    unpruned_at_chance (no method has learnt the task). For tasks that `there` has, too, and for the mean if
    it has all of them, they are also the columns of `intervals.tested` and, with three or more seeds,
    sd_seeds, sd_examples and sd_both (`intervals.components`). Raises DataError as `compare`.
    """
    shared = {task: one for task, one in here.items() if task in there}
    drawn = compare(shared, there, metrics, resamples, seed) if there else {}
    values, base = values_of(here, metrics), values_of(there, metrics)
    nothing, nor = unlearnt(here, metrics), unlearnt(there, metrics)
    for key, value in values.items():
        row: dict[str, object] = {"task": key[0], "metric": key[1], "n_seeds": len(value)}
        row |= {"value": value.mean(), "between_seeds": value.std(ddof=1) if len(value) > 1 else None}
        compared = key in drawn and (key[0] != MEAN or len(shared) == len(here))
        if compared:
            (bootstrap, null), difference = drawn[key], value - base[key]
            row |= tested(difference, bootstrap, confidence, null)
            if len(difference) >= FEWEST:
                parts = components(difference, bootstrap)._asdict()
                row |= {f"sd_{name}": float(part) for name, part in parts.items()}
        yield row | {"unpruned_at_chance": nothing[key] and (not compared or nor[key])}


#: maximum number of seeds, and multiple of examples, to consider
MOST = 1000
#: number of simulated studies
STUDIES = 2048


def power(effect: float, parts: Components, seeds: int, examples: float = 1.0, level: float = 0.05) -> float:
    """Return the probability that `intervals.p_over_seeds_and_examples` is at most `level`.

    The test is simulated in `STUDIES` studies of normal differences with the true difference `effect`.
    Different numbers of seeds and examples, and effects, use the same points of a golden-ratio lattice, which
    are more even than random ones: the simulation error is below 0.005. `parts` are standard deviations for
    the earlier study, whose number of examples is multiplied by `examples`; `seeds` is at least three.
    """
    number = np.arange(STUDIES)
    quantile, other = (number + 0.5) / STUDIES, (number * (np.sqrt(5) - 1) / 2 + 0.5) % 1
    interaction = np.square(parts.both) / examples
    shared = np.square(parts.examples) / examples + interaction / seeds
    between = parts.seeds**2 + interaction  # variance of the estimates of seeds
    mean = effect + np.sqrt(parts.seeds**2 / seeds + shared) * ndtri(quantile)
    variance = between * gammaincinv((seeds - 1) / 2, other) * 2 / (seeds - 1)
    return float(np.mean(p_of_moments(seeds, mean, variance, shared, interaction) <= level))


def seeds_needed(
    effect: float, parts: Components, wanted: float, examples: float = 1.0, level: float = 0.05
) -> int | None:
    """Return the smallest number of seeds whose `power` is at least `wanted`; None if it is above `MOST`."""
    seeds = range(FEWEST, MOST + 1)
    place = bisect_left(seeds, wanted, key=lambda number: power(effect, parts, number, examples, level))
    return seeds[place] if place < len(seeds) else None


def examples_needed(
    effect: float, parts: Components, wanted: float, seeds: int, level: float = 0.05
) -> float | None:
    """Return the smallest multiple of examples for which `power` is at least `wanted` with `seeds` seeds.

    Multiples from 0.05 to `MOST` are tried, in steps of 5 %; None if none of them is enough.
    """
    multiples = [float(multiple) for multiple in 1.05 ** np.arange(-60, np.log(MOST) / np.log(1.05))]
    place = bisect_left(multiples, wanted, key=lambda multiple: power(effect, parts, seeds, multiple, level))
    return multiples[place] if place < len(multiples) else None
