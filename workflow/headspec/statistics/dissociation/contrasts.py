"""Differences between dissociations: of methods, of kinds of pairs, of a task and the pairs of its texts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.statistics.dissociation.resampled import Evaluation, Sampled, combine, samples
from headspec.statistics.intervals import FEWEST, over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.processes import mapped
from headspec.statistics.resampling import holm
from headspec.tables import FLOAT, INT, TEXT, Schema

CONTRASTS = Schema(
    {"model": TEXT, "contrast": TEXT, "method": TEXT, "mixture": TEXT, "against": TEXT, "n_seeds": INT,
     "n_mixtures": INT, "n_at_chance": INT, "dissociation": FLOAT, "difference": FLOAT, "ci_low": FLOAT,
     "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT, "p_holm": FLOAT},
    keys=5,
)  # fmt: skip
"""Table `contrasts`: a row for each difference between mean dissociations; seeds combined.
tables/contrasts.parquet

contrast: `methods`: of a mixture trained in two ways; `paradigms`: of pairs of a task on single texts and one
    on pairs, and other pairs; `pairs_of`: of a task of pairs and the task of their texts, beside the same
    other tasks
mixture: name of the mixture; `pairs`: the mean over `mixtures.pairs`; `across paradigms`: that over some of
    them
against: a method, `within paradigms`, or a mixture
n_mixtures: mixtures that the difference rests on
n_at_chance: mixtures with a pruned model at chance; in `methods`, those of both
dissociation: mean D over tasks, mixtures and seeds
p_value: of the difference, for other seeds and examples; null with one or two seeds
"""
#: `mixture` of the mean over all pairs
PAIRS = "pairs"
ACROSS, WITHIN = "across paradigms", "within paradigms"

Floats = NDArray[np.float64]


class _Mean(NamedTuple):
    """Mean D over the tasks of n mixtures, of S seeds.

    Attributes
    ----------
    values : (S,)
    bootstrap : (resamples, S), on the same resampled examples wherever tasks are the same
    n : number of mixtures
    at_chance : how many of them have a pruned model at chance
    """

    values: Floats
    bootstrap: Floats
    n: int
    at_chance: int

    @classmethod
    def of(cls, combined: Sampled) -> _Mean:
        return cls(combined.d.mean(-1), combined.bootstrap.mean(-1), 1, int(combined.at_chance.any()))

    def joined(self, other: _Mean | None) -> _Mean:
        """The mean over the mixtures of both."""
        if other is None:
            return self
        n = self.n + other.n
        values, bootstrap = (
            (self.n * mine + other.n * theirs) / n for mine, theirs in zip(self[:2], other[:2], strict=True)
        )
        return _Mean(values, bootstrap, n, self.at_chance + other.at_chance)


def contrasts(
    evaluations: Iterable[Evaluation],
    pairs: Sequence[str],
    paradigms: Mapping[str, str],
    parents: Mapping[str, str],
    fraction: float,
    resamples: int,
    confidence: float,
    seed: int,
    processes: int = 1,
) -> pd.DataFrame:
    """The table `contrasts`, at one fraction of heads.

    A mixture counts by its mean D over tasks. Tasks and mixtures are those of the study, no sample of
    others: intervals cover seeds and examples, or with one or two seeds examples. All mixtures and methods
    are resampled on the same examples of a task, and differences are taken within a seed and a resample.
    p_holm corrects over the rows of a model and contrast; in `methods`, means over mixtures apart.

    Parameters
    ----------
    evaluations : in the order of `analyse`
    pairs : mixtures over which means are taken
    paradigms : task: `single` or `pair`
    parents : task of pairs: the task of their texts
    """
    of = functools.partial(_means, fraction=fraction, resamples=resamples, confidence=confidence, seed=seed)
    groups = (list(g) for _, g in itertools.groupby(evaluations, lambda e: (e.run.model, e.run.mixture)))
    row = functools.partial(_row, confidence=confidence)
    totals: dict[tuple[str, str], dict[str, _Mean]] = {}  # over pairs, by kind of pair
    related: dict[
        tuple[str, str], dict[frozenset[str], tuple[str, _Mean]]
    ] = {}  # mixtures of parents, by tasks
    rows = []
    for run, means in mapped(of, groups, processes):
        rows += _methods(row, run.model, run.mixture, means)
        for method, mean in means.items():
            kinds = totals.setdefault((run.model, method), {})
            if run.mixture in pairs:
                across = len({paradigms[task] for task in run.tasks}) > 1
                for kind in (PAIRS, ACROSS if across else WITHIN):
                    kinds[kind] = mean.joined(kinds.get(kind))
            if {*parents, *parents.values()}.intersection(run.tasks):
                related.setdefault((run.model, method), {})[frozenset(run.tasks)] = run.mixture, mean
    for model, of_model in itertools.groupby(totals.items(), lambda item: item[0][0]):
        means = {method: kinds[PAIRS] for (_, method), kinds in of_model if PAIRS in kinds}
        rows += _methods(row, model, PAIRS, means)
    for (model, method), kinds in totals.items():
        if ACROSS in kinds and WITHIN in kinds:
            rows.append(row((model, "paradigms", method, ACROSS, WITHIN), kinds[ACROSS], kinds[WITHIN]))
    for (model, method), by_tasks in related.items():
        for tasks, (mixture, mean) in by_tasks.items():
            for task in tasks.intersection(parents):
                other = by_tasks.get(tasks - {task} | {parents[task]})
                if parents[task] not in tasks and other:
                    rows.append(row((model, "pairs_of", method, mixture, other[0]), mean, other[1]))
    frame = pd.DataFrame(rows, columns=list(CONTRASTS.columns))
    family = [frame["model"], frame["contrast"], frame["mixture"] == PAIRS]
    return frame.assign(p_holm=frame["p_value"].groupby(family).transform(holm))


def _means(
    evaluations: list[Evaluation], fraction: float, resamples: int, confidence: float, seed: int
) -> tuple[Run, dict[str, _Mean]]:
    """Mean D of the methods of one model and mixture, and its first run."""
    of_runs = samples(evaluations, [fraction], resamples, confidence, seed, permutations=1)
    by_method = itertools.groupby(of_runs, lambda sampled: sampled.run.method)
    return evaluations[0].run, {method: _Mean.of(combine(list(seeds)).at(0)) for method, seeds in by_method}


def _methods(
    row: Callable[..., dict[str, Any]], model: str, mixture: str, means: Mapping[str, _Mean]
) -> list[dict[str, Any]]:
    """Every two methods compared."""
    return [
        row((model, "methods", method, mixture, against), means[method], means[against])
        for method, against in itertools.combinations(means, 2)
    ]


def _row(key: tuple[str, ...], mean: _Mean, other: _Mean, confidence: float) -> dict[str, Any]:
    """A row of the table: `mean` less the `other`."""
    difference, bootstrap = mean.values - other.values, mean.bootstrap - other.bootstrap
    low, high, over = over_seeds_and_examples(difference, bootstrap, confidence)
    tested = len(difference) >= FEWEST
    mixtures = mean.n if key[1] == "methods" else mean.n + other.n
    return dict(zip(list(CONTRASTS.columns)[: CONTRASTS.keys], key, strict=True)) | {
        "n_seeds": len(difference),
        "n_mixtures": mixtures,
        "n_at_chance": mean.at_chance + other.at_chance,
        "dissociation": mean.values.mean(),
        "difference": difference.mean(),
        "ci_low": float(low),
        "ci_high": float(high),
        "ci_over": over,
        "p_value": float(p_over_seeds_and_examples(difference, bootstrap)) if tested else np.nan,
    }
