"""Dissociation on resampled and permuted validation examples, and over seeds."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from headspec import tables
from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.chance import at_chance, below_chance
from headspec.statistics.dissociation.scores import dissociation, net_dissociation
from headspec.statistics.intervals import Interval, over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.resampling import Clusters, Predictions, p_value, permuted_scores, task_predictions
from headspec.tasks import metrics
from headspec.tasks.metrics import bootstrap_counts

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PrunedPredictions:
    """Predictions of one run under pruning.

    Every task is evaluated on the same examples without pruning, and with the heads of every task pruned, at
    every fraction. `grouped` has, for tasks whose examples share texts (`headspec.data.overlap`), the
    source of the texts and the group of each example by its number.
    """

    run: Run
    metrics: Mapping[str, str]  # task: its main metric
    stored: pd.DataFrame | str  # table 'predictions', or its path
    grouped: Mapping[str, tuple[str, NDArray[np.intp]]] = field(default_factory=dict)

    def read(self) -> pd.DataFrame:
        """Return the table; a path is read every time, to keep nothing in memory."""
        return tables.read(self.stored) if isinstance(self.stored, str) else self.stored


def evaluations(
    runs: Iterable[Mapping[str, Any]],
    metrics: Mapping[str, str],
    stored: Iterable[pd.DataFrame | str],
    grouped: Mapping[str, tuple[str, NDArray[np.intp]]] | None = None,
) -> Iterator[PrunedPredictions]:
    """Yield the predictions of runs, given by their fields as rules pass them; see `PrunedPredictions`.

    `grouped` has the texts and the group of every example, (n,), of tasks that share texts.
    """
    for run, table in zip(runs, stored, strict=True):
        yield PrunedPredictions(Run(**run), metrics, table, grouped or {})


def by_mixture(evaluations: Iterable[PrunedPredictions]) -> Iterator[list[PrunedPredictions]]:
    """Group adjacent evaluations of one model and mixture."""
    for _, group in itertools.groupby(evaluations, lambda one: (one.run.model, one.run.mixture)):
        yield list(group)


@dataclass(frozen=True)
class ResampledDissociation:
    """Dissociation of the k tasks of one run, or of S seeds, with its bootstrap and null distribution.

    ``...`` stands for fractions and tasks (F, k), or after `at` and `area` for tasks (k,).
    """

    run: Run  # of the first seed
    examples_hash: str  # of examples and labels
    base: Floats  # (k,), metric without pruning, mean over seeds
    chance: Floats  # (k,), of the best constant prediction
    d: Floats  # (S, ...)
    bootstrap: Floats  # (resamples, S, ...)
    null: Floats  # (permutations, ...), mean over seeds
    net: Floats  # (S, ...), net of the strength of a task's heads; see `net_dissociation`
    net_bootstrap: Floats  # (resamples, S, ...)
    at_chance: NDArray[np.bool_]  # (...), whether some pruned model is
    unpruned_at_chance: NDArray[np.bool_]  # (k,), whether the unpruned model of some seed is
    below_chance: NDArray[np.bool_]  # (k,), whether the unpruned models of all seeds are

    @property
    def mean(self) -> Floats:
        """Mean dissociation over seeds, (...)."""
        mean: Floats = self.d.mean(axis=0)
        return mean

    @property
    def p_value(self) -> Floats:
        return p_value(self.mean, self.null)

    @property
    def p_seeds(self) -> Floats:
        """The p for other seeds too, nan with one or two."""
        return p_over_seeds_and_examples(self.d, self.bootstrap)

    def interval(self, confidence: float) -> Interval:
        return over_seeds_and_examples(self.d, self.bootstrap, confidence)

    def net_interval(self, confidence: float) -> Interval:
        return over_seeds_and_examples(self.net, self.net_bootstrap, confidence)

    def _with(self, values: Callable[[Floats], Floats], **others: Any) -> ResampledDissociation:
        """Replace all values of dissociation by a function of them, and `others`."""
        names = ("d", "bootstrap", "null", "net", "net_bootstrap")
        return replace(self, **others | {name: values(getattr(self, name)) for name in names})

    def at(self, index: int) -> ResampledDissociation:
        """Return the results at the fraction with this index."""
        return self._with(lambda values: values[..., index, :], at_chance=self.at_chance[index])

    def area(self, fractions: Sequence[float]) -> ResampledDissociation:
        """Mean over fractions from 0, where D is 0, to the largest of `fractions`, with linear interpolation.

        It is the area between a task's curves of relative performance with other tasks' heads and with its
        own heads pruned, divided by the range of fractions.
        """
        widths = np.diff(fractions, prepend=0)
        weights = (widths + np.append(widths[1:], 0)) / (2 * fractions[-1])
        # at_chance is for the shape: areas are not marked
        return self._with(lambda values: weights @ values, at_chance=self.at_chance[0])

    def with_mean(self) -> ResampledDissociation:
        """Append the mean over tasks as a further task; it is at or below chance if any task is."""

        def append_mean(values: Floats) -> Floats:
            return np.concatenate([values, values.mean(axis=-1, keepdims=True)], axis=-1)

        return self._with(
            append_mean,
            base=np.append(self.base, np.nan),
            chance=np.append(self.chance, np.nan),
            at_chance=np.concatenate([self.at_chance, self.at_chance.any(axis=-1, keepdims=True)], axis=-1),
            unpruned_at_chance=np.append(self.unpruned_at_chance, self.unpruned_at_chance.any()),
            below_chance=np.append(self.below_chance, self.below_chance.any()),
        )


def resample_run(
    evaluation: PrunedPredictions,
    fractions: Sequence[float],
    resamples: int,
    confidence: float,
    seed: int,
    permutations: int | None = None,
) -> ResampledDissociation:
    """Dissociation of one run; see `resample_runs`."""
    return resample_runs([evaluation], fractions, resamples, confidence, seed, permutations)[0]


def resample_runs(
    evaluations: Sequence[PrunedPredictions],
    fractions: Sequence[float],
    resamples: int,
    confidence: float,
    seed: int,
    permutations: int | None = None,
) -> list[ResampledDissociation]:
    """Dissociation of runs of one model and mixture at F increasing fractions of pruned heads, resampled.

    All methods, seeds and fractions use the same resamples and permutations of the same examples, and all
    mixtures of a task the same resamples: as they err on the same examples, means and differences pair them.

    Bootstrap: the validation examples of each evaluated task are resampled, the same ones for the base and
    every pruning, independently for each task. Examples that share texts are resampled and permuted by
    groups, for tasks of the same texts together.

    Permutation: if it makes no difference whose heads are pruned, the predictions under the k prunings are
    exchangeable within an example, and are permuted there; the base is not. The hypothesis is about these
    trained models on other examples, not about other seeds. There are `resamples` permutations by default.

    At chance: see `headspec.statistics.chance.at_chance`. A metric cannot fall much below chance, so D means
    little there. If the unpruned model is at chance, D compares noise. Below chance: `chance.below_chance`.
    """
    permutations = resamples if permutations is None else permutations
    on_examples: dict[str, list[tuple[Run, list[Predictions]]]] = {}
    order = []
    for evaluation in evaluations:
        table = evaluation.read()
        tasks = [_pruned_predictions(evaluation, table, task, fractions) for task in evaluation.run.tasks]
        examples = hashlib.sha256(b"".join(task.content for task in tasks)).hexdigest()
        on_examples.setdefault(examples, []).append((evaluation.run, tasks))
        order.append((examples, len(on_examples[examples]) - 1))
    sampled: dict[str, list[ResampledDissociation]] = {}
    for examples, runs in on_examples.items():
        run, first = runs[0]
        by_task: list[tuple[Any, ...]] = []
        for i, task in enumerate(run.tasks):
            metric = evaluations[0].metrics[task]
            source, clusters = drawn_clusters(evaluations[0], task, first[i].example)
            bootstrap_rng = np.random.default_rng(derive(seed, "dissociation", source, "bootstrap"))
            permutation_rng = np.random.default_rng(
                derive(seed, "dissociation", run.model, run.mixture, source, "permutation")
            )
            label, predictions = first[i].label, np.stack([tasks[i].prediction for _, tasks in runs])
            pruned = predictions[:, 1:].reshape(len(runs), len(run.tasks), -1, *predictions.shape[2:])
            weights = bootstrap_counts(clusters.number, resamples, bootstrap_rng)[:, clusters.cluster]
            point, bootstrap = _bootstrapped(metric, label, predictions, weights)
            null = _permuted(metric, label, pruned, permutations, permutation_rng, clusters)
            masks_at_chance = at_chance(metric, label, weights, np.moveaxis(bootstrap, 1, 0), confidence)
            pruned_at_chance = masks_at_chance[:, 1:].reshape(pruned.shape[:3]).any(axis=1)
            unpruned = bootstrap[..., 0].T  # (resamples, runs)
            below = below_chance(metric, label, weights, unpruned, confidence)
            chance = np.full(len(runs), metrics.chance(metric, label))
            by_task.append((point, bootstrap, null, pruned_at_chance, masks_at_chance[:, 0], below, chance))
        sampled[examples] = [
            _run_dissociation(run, examples, [[values[r] for values in task] for task in by_task])
            for r, (run, _) in enumerate(runs)
        ]
    return [sampled[examples][place] for examples, place in order]


def drawn_clusters(
    evaluation: PrunedPredictions, task: str, numbers: NDArray[np.intp]
) -> tuple[str, Clusters]:
    """Name of the texts that a task's examples (n,) come from, and the clusters in which they are drawn."""
    source, group = evaluation.grouped.get(task, (task, numbers))
    others = [t for t in evaluation.run.tasks if t != task and evaluation.grouped.get(t, ("",))[0] == source]
    if source == task and not others:  # no pairs of its texts are in the mixture
        return task, Clusters(len(numbers))
    number = max(groups.max() for other, groups in evaluation.grouped.values() if other == source) + 1
    return source, Clusters(int(number), group[numbers])


def _pruned_predictions(
    evaluation: PrunedPredictions, table: pd.DataFrame, task: str, fractions: Sequence[float]
) -> Predictions:
    """Predictions (1 + k * F, n) of a task in the `table` of a run: `none`, then (pruned_for, fraction)."""
    masks = [("none", 0.0), *itertools.product(evaluation.run.tasks, fractions)]
    sets = pd.MultiIndex.from_tuples(masks, names=["pruned_for", "fraction"])
    where = f"{evaluation.run.path}/predictions.parquet: task '{task}'"
    return task_predictions(table, task, sets, where)


def _bootstrapped(
    metric: str, label: Floats, predictions: Floats, weights: NDArray[np.integer]
) -> tuple[Floats, Floats]:
    """Scores (runs, masks) of predictions (runs, masks, n, ...), and in samples (runs, resamples, masks)."""
    runs, masks = predictions.shape[:2]
    every = predictions.reshape(-1, *predictions.shape[2:])
    point = metrics.scores(metric, label, every)
    bootstrap = metrics.resampled_scores(metric, label, every, weights)
    return point.reshape(runs, masks), np.moveaxis(bootstrap.reshape(len(weights), runs, masks), 1, 0)


def _permuted(
    metric: str,
    label: Floats,
    pruned: Floats,
    permutations: int,
    rng: np.random.Generator,
    clusters: Clusters,
) -> Floats:
    """Scores (runs, permutations, F, k) of predictions `pruned` (runs, k, F, n, ...), permuted."""
    runs, k, fractions = pruned.shape[:3]
    sets = pruned.swapaxes(1, 2).reshape(-1, k, *pruned.shape[3:])
    null = permuted_scores(metric, label, sets, permutations, rng, clusters)
    return np.moveaxis(null.reshape(permutations, runs, fractions, k), 1, 0)


def _run_dissociation(run: Run, examples: str, tasks: Sequence[Sequence[Any]]) -> ResampledDissociation:
    """Dissociation of one run, from the scores of each of its k tasks.

    Each of `tasks` has point (1 + k * F,), bootstrap (resamples, 1 + k * F), null (permutations, F, k),
    at_chance (F,), unpruned_at_chance, below_chance, and chance.
    """
    k = len(tasks)
    point, bootstrap, null, pruned_at_chance, unpruned, below, chance = zip(*tasks, strict=True)

    def by_fraction(values: list[Floats]) -> Floats:
        """Stack the (..., k * F) of each task to (..., F, k, tasks)."""
        stacked = np.stack(values, axis=-1)
        return np.moveaxis(stacked.reshape(*stacked.shape[:-2], k, -1, k), -3, -2)

    base = np.array([metrics[0] for metrics in point])
    matrix = by_fraction([metrics[1:] for metrics in point])
    resampled_base = np.stack([metrics[:, 0] for metrics in bootstrap], axis=-1)[:, None]  # (resamples, 1, k)
    resampled = by_fraction([metrics[:, 1:] for metrics in bootstrap])
    return ResampledDissociation(
        run=run,
        examples_hash=examples,
        base=base,
        d=dissociation(matrix, base)[None],
        bootstrap=dissociation(resampled, resampled_base)[:, None],
        null=dissociation(np.stack(null, axis=-1), base),
        net=net_dissociation(matrix, base)[None],
        net_bootstrap=net_dissociation(resampled, resampled_base)[:, None],
        at_chance=np.stack(pruned_at_chance, axis=-1),
        unpruned_at_chance=np.array(unpruned),
        below_chance=np.array(below),
        chance=np.array(chance),
    )


def combine(seeds: Sequence[ResampledDissociation]) -> ResampledDissociation:
    """Combine the seeds of one model, mixture and method; DataError if their examples differ.

    Null: the mean over seeds, which share permutations: a copy of a seed adds no information. Interval: see
    `headspec.statistics.intervals`. At chance: any seed is. Below chance: all seeds are, as where labels are
    swapped; of several models that guess, one may well be.
    """
    first, *others = seeds
    for other in others:
        if other.examples_hash != first.examples_hash:
            raise DataError(
                f"{other.run.path}/predictions.parquet: validation examples differ from those of "
                f"{first.run.path}"
            )
    return replace(
        first,
        base=np.mean([one.base for one in seeds], axis=0),
        d=np.concatenate([one.d for one in seeds]),
        bootstrap=np.concatenate([one.bootstrap for one in seeds], axis=1),
        null=np.mean([one.null for one in seeds], axis=0),
        net=np.concatenate([one.net for one in seeds]),
        net_bootstrap=np.concatenate([one.net_bootstrap for one in seeds], axis=1),
        at_chance=np.any([one.at_chance for one in seeds], axis=0),
        unpruned_at_chance=np.any([one.unpruned_at_chance for one in seeds], axis=0),
        below_chance=np.all([one.below_chance for one in seeds], axis=0),
    )


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Iterator[Result]:
    """Apply `function` to each of `items` in several processes; results are in order."""
    if processes == 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,)) as pool:
        yield from pool.map(function, items)
