"""Dissociation of trained models on resampled and permuted validation examples, and over seeds."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.dissociation import scores
from headspec.statistics.intervals import Interval, over_seeds_and_examples
from headspec.statistics.metrics import chance, score
from headspec.statistics.resampling import bootstrap_counts, p_value, permuted_scores

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Predictions of one run under pruning.

    Attributes
    ----------
    metrics : task: its main metric
    predictions : table 'predictions'
        Every task of the run is evaluated on the same examples without pruning, and with the heads of
        every task pruned, at every fraction.
    """

    run: Run
    metrics: Mapping[str, str]
    predictions: pd.DataFrame


@dataclass(frozen=True)
class Sampled:
    """Dissociation of the k tasks of one run, or of S seeds, with its bootstrap and null distribution.

    ``...`` stands for fractions and tasks (F, k), or after `at` and `area` for tasks (k,).
    """

    run: Run  # of the first seed
    examples: str  # hash of examples and labels
    base: Floats  # (k,), mean over seeds
    d: Floats  # (S, ...)
    bootstrap: Floats  # (resamples, S, ...)
    null: Floats  # (permutations, ...), mean over seeds
    at_chance: NDArray[np.bool_]  # (...)

    @property
    def mean(self) -> Floats:
        """Mean dissociation over seeds, (...)."""
        return self.d.mean(axis=0)

    @property
    def p_value(self) -> Floats:
        return p_value(self.mean, self.null)

    def interval(self, confidence: float) -> Interval:
        return over_seeds_and_examples(self.d, self.bootstrap, confidence)

    def at(self, index: int) -> Sampled:
        """At the fraction with this index."""
        d, bootstrap, null = (values[..., index, :] for values in (self.d, self.bootstrap, self.null))
        return replace(self, d=d, bootstrap=bootstrap, null=null, at_chance=self.at_chance[index])

    def area(self, fractions: Sequence[float]) -> Sampled:
        """Mean over fractions from 0 to the largest of `fractions`, with linear interpolation.

        This is the area between a task's two curves of relative performance, with other tasks' heads
        and with its own heads pruned, divided by the width of the range. At 0, D is 0.
        """
        widths = np.diff(fractions, prepend=0)
        weights = (widths + np.append(widths[1:], 0)) / (2 * fractions[-1])
        d, bootstrap, null = (weights @ values for values in (self.d, self.bootstrap, self.null))
        return replace(self, d=d, bootstrap=bootstrap, null=null, at_chance=self.at_chance[0])

    def with_mean(self) -> Sampled:
        """With the mean over tasks appended as a further task; it is at_chance if any task is."""

        def append_mean(values: Floats) -> Floats:
            return np.concatenate([values, values.mean(axis=-1, keepdims=True)], axis=-1)

        return replace(
            self,
            base=np.append(self.base, np.nan),
            d=append_mean(self.d),
            bootstrap=append_mean(self.bootstrap),
            null=append_mean(self.null),
            at_chance=np.concatenate([self.at_chance, self.at_chance.any(axis=-1, keepdims=True)], axis=-1),
        )


def _aligned(evaluation: Evaluation, task: str, fractions: Sequence[float]) -> pd.DataFrame:
    """Predictions of `task`: rows are (example, label), columns are (pruned_for, fraction)."""
    masks = [("none", 0.0), *itertools.product(evaluation.run.tasks, fractions)]
    rows = evaluation.predictions[evaluation.predictions["task"] == task]
    wide = rows.pivot(index=["example", "label"], columns=["pruned_for", "fraction"], values="prediction")
    wide = wide.sort_index().reindex(columns=pd.MultiIndex.from_tuples(masks))
    for mask, incomplete in zip(masks, wide.isna().any() if len(wide) else [True] * len(masks), strict=True):
        if incomplete:
            raise DataError(
                f"{evaluation.run.path}/predictions.parquet: task '{task}' lacks predictions with "
                f"pruned_for '{mask[0]}' at fraction {mask[1]:g}"
            )
    return wide


def sample(
    evaluation: Evaluation,
    fractions: Sequence[float],
    resamples: int,
    confidence: float,
    seed: int,
    permutations: int | None = None,
) -> Sampled:
    """Dissociation of one run at F fractions of pruned heads, with bootstrap and permutations.

    All methods and seeds of a model and mixture, and all fractions, use the same resamples and
    permutations of the same examples. Because they err on the same examples, `combine`, differences
    between methods and means over fractions pair them.

    Bootstrap: the validation examples of each evaluated task are resampled, the same ones for the base
    and every pruning (paired), independently for each task.

    Permutation: under the null hypothesis that it makes no difference whose heads are pruned, the
    predictions under the k prunings are exchangeable within an example. They are permuted within each
    example (for two tasks: swapped or not); the base is not. The hypothesis is about these trained
    models on other examples; it says nothing about other seeds.

    At chance: some pruning leaves the task no better than `chance`, by the one-sided interval of the
    paired difference at `confidence`. A metric cannot fall much below chance, so D means little there.

    Parameters
    ----------
    fractions : (F,), increasing
    permutations : number of permutations; `resamples` by default
    """
    run, k = evaluation.run, len(evaluation.run.tasks)
    permutations = resamples if permutations is None else permutations
    examples, point, bootstrap, null, at_chance = hashlib.sha256(), [], [], [], []
    for task in run.tasks:
        metric = evaluation.metrics[task]
        wide = _aligned(evaluation, task, fractions)
        examples.update(np.array(wide.index.to_frame(), dtype=float).tobytes())
        label = wide.index.get_level_values("label").to_numpy(dtype=float)
        predictions = wide.to_numpy(dtype=float)  # (n, 1 + k * F)
        names = ("dissociation", run.model, run.mixture, task)
        rng = np.random.default_rng(derive(seed, *names, "bootstrap"))
        weights = bootstrap_counts(len(label), resamples, rng)
        point.append(np.array([score(metric, label, p) for p in predictions.T]))
        bootstrap.append(np.stack([score(metric, label, p, weights) for p in predictions.T], axis=-1))
        above = bootstrap[-1][:, 1:] - chance(metric, label, weights)[:, None]
        low = np.quantile(above, 1 - confidence, axis=0) <= 0
        at_chance.append(low.reshape(k, -1).any(axis=0))
        rng = np.random.default_rng(derive(seed, *names, "permutation"))
        pruned = np.moveaxis(predictions[:, 1:].reshape(len(label), k, -1), -1, 0)  # (F, n, k)
        null.append(permuted_scores(metric, label, pruned, permutations, rng))

    def by_fraction(of_tasks: list[Floats]) -> Floats:
        """Stack the (..., k * F) of each task to (..., F, k, tasks)."""
        stacked = np.stack(of_tasks, axis=-1)
        return np.moveaxis(stacked.reshape(*stacked.shape[:-2], k, -1, k), -3, -2)

    base = np.array([metrics[0] for metrics in point])
    resampled = np.stack([metrics[:, 0] for metrics in bootstrap], axis=-1)  # (resamples, k)
    return Sampled(
        run=run,
        examples=examples.hexdigest(),
        base=base,
        d=scores(by_fraction([metrics[1:] for metrics in point]), base)[None],
        bootstrap=scores(by_fraction([metrics[:, 1:] for metrics in bootstrap]), resampled[:, None])[:, None],
        null=scores(np.stack(null, axis=-1), base),
        at_chance=np.stack(at_chance, axis=-1),
    )


def combine(seeds: Sequence[Sampled]) -> Sampled:
    """Combine the seeds of one model, mixture and method.

    Null: the mean over seeds, which use the same permutations (see `sample`), so that a copy of a seed
    adds no information. Interval: see `headspec.statistics.intervals`. At chance: any seed is.

    Raises
    ------
    DataError
        The seeds are evaluated on different examples.
    """
    first, *others = seeds
    for other in others:
        if other.examples != first.examples:
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
        at_chance=np.any([one.at_chance for one in seeds], axis=0),
    )
