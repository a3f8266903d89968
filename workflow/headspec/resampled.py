"""Dissociation of trained models on resampled and permuted validation examples, and seeds combined."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.dissociation import scores
from headspec.errors import DataError
from headspec.intervals import Interval, over_seeds_and_examples
from headspec.metrics import chance, score
from headspec.resampling import bootstrap_counts, p_value, permuted_scores
from headspec.runs import Run
from headspec.seeds import derive

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """What pruning did to one run.

    metrics: main metric of each task. predictions: table 'predictions', in which every task of
    the run is evaluated on the same examples with nothing and with every task's heads pruned, at
    every fraction.
    """

    run: Run
    metrics: Mapping[str, str]
    predictions: pd.DataFrame


@dataclass(frozen=True)
class Sampled:
    """Dissociation of the k tasks of one run, or of S seeds, with what resampling says of it.

    ``...`` stands for what dissociation is of: fractions and tasks (F, k), or after `at` and `area`
    tasks alone (k,).
    """

    run: Run  # the first of them
    examples: str  # which they are, by content
    base: Floats  # (k,), mean over seeds
    d: Floats  # (S, ...)
    bootstrap: Floats  # (resamples, S, ...)
    null: Floats  # (permutations, ...), mean over seeds
    floor: NDArray[np.bool_]  # (...)

    @property
    def mean(self) -> Floats:
        """Dissociation (...), mean over seeds."""
        return self.d.mean(axis=0)

    @property
    def p_value(self) -> Floats:
        return p_value(self.mean, self.null)

    def interval(self, confidence: float) -> Interval:
        return over_seeds_and_examples(self.d, self.bootstrap, confidence)

    def at(self, index: int) -> Sampled:
        """At one of the fractions."""
        d, bootstrap, null = (part[..., index, :] for part in (self.d, self.bootstrap, self.null))
        return replace(self, d=d, bootstrap=bootstrap, null=null, floor=self.floor[index])

    def area(self, fractions: Sequence[float]) -> Sampled:
        """Mean over all fractions from 0 to the largest of `fractions`, linear between them.

        That is the area between a task's two curves of relative performance, others' heads pruned and
        its own, over the width of that range. At 0 nothing is pruned and D is 0.
        """
        widths = np.diff(fractions, prepend=0)
        weights = (widths + np.append(widths[1:], 0)) / (2 * fractions[-1])
        d, bootstrap, null = (weights @ part for part in (self.d, self.bootstrap, self.null))
        return replace(self, d=d, bootstrap=bootstrap, null=null, floor=self.floor[0])

    def with_mean(self) -> Sampled:
        """The mean over the tasks as one more of them; its floor is that of any."""

        def more(part: Floats) -> Floats:
            return np.concatenate([part, part.mean(axis=-1, keepdims=True)], axis=-1)

        return replace(
            self,
            base=np.append(self.base, np.nan),
            d=more(self.d),
            bootstrap=more(self.bootstrap),
            null=more(self.null),
            floor=np.concatenate([self.floor, self.floor.any(axis=-1, keepdims=True)], axis=-1),
        )


def _aligned(evaluation: Evaluation, task: str, fractions: Sequence[float]) -> pd.DataFrame:
    """Predictions of `task`: a row per example, (example, label); columns (pruned_for, fraction)."""
    masks = [("none", 0.0), *itertools.product(evaluation.run.tasks, fractions)]
    rows = evaluation.predictions[evaluation.predictions["task"] == task]
    wide = rows.pivot(index=["example", "label"], columns=["pruned_for", "fraction"], values="prediction")
    wide = wide.sort_index().reindex(columns=pd.MultiIndex.from_tuples(masks))
    for mask, lacking in zip(masks, wide.isna().any() if len(wide) else [True] * len(masks), strict=True):
        if lacking:
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
    """Dissociation of one run at F fractions of pruned heads, its bootstrap and its permutations.

    All runs of a model and mixture resample and permute the same examples alike, whatever their method
    and seed, and so do all fractions: they err on the same examples, and `combine`, differences of
    methods and means over fractions pair them.

    Bootstrap: the validation examples of each evaluated task are resampled, the same ones for the
    base and every pruning (paired), independently for the tasks.

    Permutation: where it makes no difference whose heads are pruned, the predictions of the k
    prunings are exchangeable within an example; each example's are put in random order (for
    two tasks: swapped or not), the base stays. The hypothesis is about these trained models and other
    examples; it says nothing of other seeds.

    Floor: some pruning leaves the task no better than `chance`, by the one-sided interval of the
    paired difference at `confidence`. Below it a metric cannot fall, so D means little.

    Parameters
    ----------
    fractions : (F,), increasing
    permutations : as many as `resamples` by default
    """
    run, k = evaluation.run, len(evaluation.run.tasks)
    permutations = resamples if permutations is None else permutations
    examples, point, bootstrap, null, floor = hashlib.sha256(), [], [], [], []
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
        at_chance = np.quantile(above, 1 - confidence, axis=0) <= 0
        floor.append(at_chance.reshape(k, -1).any(axis=0))
        rng = np.random.default_rng(derive(seed, *names, "permutation"))
        pruned = np.moveaxis(predictions[:, 1:].reshape(len(label), k, -1), -1, 0)  # (F, n, k)
        null.append(permuted_scores(metric, label, pruned, permutations, rng))

    def by_fraction(parts: list[Floats]) -> Floats:
        """(..., k * F) of each task as (..., F, k, tasks)."""
        stacked = np.stack(parts, axis=-1)
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
        floor=np.stack(floor, axis=-1),
    )


def combine(seeds: Sequence[Sampled]) -> Sampled:
    """Several seeds of one model, mixture and method as one.

    Null: the mean over seeds, which are permuted alike (see `sample`), so that the copy of a seed says
    nothing new. Interval: see `headspec.intervals`. Floor: that of any seed.

    Raises
    ------
    DataError
        The seeds are not evaluated on the same examples.
    """
    first, *others = seeds
    for other in others:
        if other.examples != first.examples:
            raise DataError(
                f"{other.run.path}/predictions.parquet: other validation examples than in {first.run.path}"
            )
    return replace(
        first,
        base=np.mean([one.base for one in seeds], axis=0),
        d=np.concatenate([one.d for one in seeds]),
        bootstrap=np.concatenate([one.bootstrap for one in seeds], axis=1),
        null=np.mean([one.null for one in seeds], axis=0),
        floor=np.any([one.floor for one in seeds], axis=0),
    )
