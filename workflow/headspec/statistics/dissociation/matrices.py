"""Pruning matrices on resampled and permuted validation examples."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.seeds import derive
from headspec.statistics.chance import at_chance, below_chance
from headspec.statistics.dissociation.pruned import PrunedPredictions, drawn_clusters
from headspec.statistics.resampling import Clusters, Predictions, permuted_scores, task_predictions
from headspec.tasks import metrics
from headspec.tasks.metrics import Metric, bootstrap_counts

Floats = NDArray[np.float64]


class TaskScores(NamedTuple):
    """Scores of one run at an evaluated task: unpruned, then with the heads of k tasks pruned at F fractions.

    Columns of `point` and `bootstrap` are `none`, then (pruned_for, fraction).
    """

    point: Floats  # (1 + k * F,)
    bootstrap: Floats  # (resamples, 1 + k * F)
    null: Floats  # (permutations, F, k), as if it made no difference whose heads are pruned
    at_chance: NDArray[np.bool_]  # (F,), whether some pruned model is
    unpruned_at_chance: np.bool_
    below_chance: np.bool_  # the unpruned model
    chance: float  # of the best constant prediction


@dataclass(frozen=True)
class ResampledMatrix:
    """Pruning matrices (F, k, k) of one run: a row for each list of heads, a column for each task.

    `bootstrap` and `null` are scores, as `matrix`; permuted scores go with the point estimate of `base`.
    """

    run: Run
    examples_hash: str  # of examples and labels
    base: Floats  # (k,)
    matrix: Floats  # (F, k, k)
    bootstrap_base: Floats  # (resamples, k)
    bootstrap: Floats  # (resamples, F, k, k)
    null: Floats  # (permutations, F, k, k)
    at_chance: NDArray[np.bool_]  # (F, k)
    unpruned_at_chance: NDArray[np.bool_]  # (k,)
    below_chance: NDArray[np.bool_]  # (k,)
    chance: Floats  # (k,)

    @classmethod
    def of_tasks(cls, run: Run, examples: str, tasks: Sequence[TaskScores]) -> ResampledMatrix:
        """Return the matrices of one run, from the scores of each of its k tasks."""
        k = len(tasks)

        def by_fraction(values: list[Floats]) -> Floats:
            """Stack values (..., k * F) of each task to (..., F, k, tasks)."""
            stacked = np.stack(values, axis=-1)
            return np.moveaxis(stacked.reshape(*stacked.shape[:-2], k, -1, k), -3, -2)

        return cls(
            run=run,
            examples_hash=examples,
            base=np.array([task.point[0] for task in tasks]),
            matrix=by_fraction([task.point[1:] for task in tasks]),
            bootstrap_base=np.stack([task.bootstrap[:, 0] for task in tasks], axis=-1),
            bootstrap=by_fraction([task.bootstrap[:, 1:] for task in tasks]),
            null=np.stack([task.null for task in tasks], axis=-1),
            at_chance=np.stack([task.at_chance for task in tasks], axis=-1),
            unpruned_at_chance=np.array([task.unpruned_at_chance for task in tasks]),
            below_chance=np.array([task.below_chance for task in tasks]),
            chance=np.array([task.chance for task in tasks]),
        )


def resample_matrices(
    evaluations: Sequence[PrunedPredictions],
    fractions: Sequence[float],
    resamples: int,
    confidence: float,
    seed: int,
    permutations: int | None = None,
) -> list[ResampledMatrix]:
    """Return resampled pruning matrices of runs of one model and mixture, at F increasing fractions of heads.

    All methods, seeds and fractions use the same resamples and permutations of the same examples, and all
    mixtures of a task the same resamples: as they err on the same examples, means and differences pair them.

    In the bootstrap, the validation examples of each evaluated task are resampled, in the same way for the
    base and every pruning, and independently for each task. Examples that share texts are resampled and
    permuted by groups, for tasks of the same texts together.

    If it makes no difference whose heads are pruned, the predictions under the k prunings are exchangeable
    within an example, and are permuted there; the base is not. The hypothesis is about these trained models
    on other examples, not about other seeds. There are `resamples` permutations by default.

    For marks see `chance.at_chance` and `chance.below_chance`. A metric cannot fall much below chance, so D
    means little there. If the unpruned model is at chance, D compares noise.

    Raises DataError if predictions are missing.
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
    sampled: dict[str, list[ResampledMatrix]] = {}
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
            ResampledMatrix.of_tasks(run, examples, [TaskScores(*(v[r] for v in task)) for task in by_task])
            for r, (run, _) in enumerate(runs)
        ]
    return [sampled[examples][place] for examples, place in order]


def _pruned_predictions(
    evaluation: PrunedPredictions, table: pd.DataFrame, task: str, fractions: Sequence[float]
) -> Predictions:
    """Return predictions (1 + k * F, n) of a task in `table`: `none`, then (pruned_for, fraction)."""
    masks = [("none", 0.0), *itertools.product(evaluation.run.tasks, fractions)]
    sets = pd.MultiIndex.from_tuples(masks, names=["pruned_for", "fraction"])
    where = f"{evaluation.run.path}/predictions.parquet: task '{task}'"
    return task_predictions(table, task, sets, where)


def _bootstrapped(
    metric: str | Metric, label: Floats, predictions: Floats, weights: NDArray[np.integer]
) -> tuple[Floats, Floats]:
    """Return scores (runs, masks) of predictions (runs, masks, n, ...), and (runs, resamples, masks)."""
    runs, masks = predictions.shape[:2]
    every = predictions.reshape(-1, *predictions.shape[2:])
    point = metrics.scores(metric, label, every)
    bootstrap = metrics.resampled_scores(metric, label, every, weights)
    return point.reshape(runs, masks), np.moveaxis(bootstrap.reshape(len(weights), runs, masks), 1, 0)


def _permuted(
    metric: str | Metric,
    label: Floats,
    pruned: Floats,
    permutations: int,
    rng: np.random.Generator,
    clusters: Clusters,
) -> Floats:
    """Return scores (runs, permutations, F, k) of permuted predictions `pruned` (runs, k, F, n, ...)."""
    runs, k, fractions = pruned.shape[:3]
    sets = pruned.swapaxes(1, 2).reshape(-1, k, *pruned.shape[3:])
    null = permuted_scores(metric, label, sets, permutations, rng, clusters)
    return np.moveaxis(null.reshape(permutations, runs, fractions, k), 1, 0)
