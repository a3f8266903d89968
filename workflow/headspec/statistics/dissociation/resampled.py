"""Dissociation on resampled and permuted validation examples, and over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.statistics.dissociation.matrices import ResampledMatrix, resample_matrices
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.dissociation.scores import dissociation, net_dissociation
from headspec.statistics.intervals import Interval, over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.resampling import p_value

Floats = NDArray[np.float64]


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

    @classmethod
    def of_matrix(cls, one: ResampledMatrix) -> ResampledDissociation:
        """Return the dissociation of one run."""
        resampled_base = one.bootstrap_base[:, None]  # (resamples, 1, k)
        return cls(
            run=one.run,
            examples_hash=one.examples_hash,
            base=one.base,
            d=dissociation(one.matrix, one.base)[None],
            bootstrap=dissociation(one.bootstrap, resampled_base)[:, None],
            null=dissociation(one.null, one.base),
            net=net_dissociation(one.matrix, one.base)[None],
            net_bootstrap=net_dissociation(one.bootstrap, resampled_base)[:, None],
            at_chance=one.at_chance,
            unpruned_at_chance=one.unpruned_at_chance,
            below_chance=one.below_chance,
            chance=one.chance,
        )

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
        """The p that covers other seeds, too; nan with one or two."""
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
        """Return the mean over fractions from 0, where D is 0, to the largest, with linear interpolation.

        It is the area between a task's curves of relative performance with other tasks' heads and with its
        own heads pruned, divided by the range of `fractions`, which increase.
        """
        widths = np.diff(fractions, prepend=0)
        weights = (widths + np.append(widths[1:], 0)) / (2 * fractions[-1])
        # at_chance is for the shape: areas are not marked
        return self._with(lambda values: weights @ values, at_chance=self.at_chance[0])

    def with_mean(self) -> ResampledDissociation:
        """Append the mean as a further task without a base; it is at or below chance if any task is."""

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
    """Return the dissociation of one run; see `resample_runs`."""
    return resample_runs([evaluation], fractions, resamples, confidence, seed, permutations)[0]


def resample_runs(
    evaluations: Sequence[PrunedPredictions],
    fractions: Sequence[float],
    resamples: int,
    confidence: float,
    seed: int,
    permutations: int | None = None,
) -> list[ResampledDissociation]:
    """Return the dissociation of runs of one model and mixture; see `resample_matrices`."""
    matrices = resample_matrices(evaluations, fractions, resamples, confidence, seed, permutations)
    return [ResampledDissociation.of_matrix(matrix) for matrix in matrices]


def combine(seeds: Sequence[ResampledDissociation]) -> ResampledDissociation:
    """Combine the seeds of one model, mixture and method.

    The null distribution is the mean over seeds, which share permutations: a copy of a seed adds no
    information. A task is at chance if any seed is, and below chance if all seeds are, as where labels are
    swapped; of several models that guess, one may well be. Raises DataError if examples differ.
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
