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
     "n_mixtures": INT, "n_at_chance": INT, "n_left_out": INT, "dissociation": FLOAT, "difference": FLOAT,
     "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT, "p_holm": FLOAT},
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
n_at_chance: of these, mixtures with a pruned model at chance; in `methods`, those of both
n_left_out: mixtures left out, because an unpruned model is at chance, in `methods` by either
dissociation: mean D over tasks, mixtures and seeds; null, as all that follows, if no mixtures are left
p_value: of the difference, for other seeds and examples; null with one or two seeds
"""
#: `mixture` of the mean over all pairs
PAIRS = "pairs"
ACROSS, WITHIN = "across paradigms", "within paradigms"

Floats = NDArray[np.float64]


class _Mean(NamedTuple):
    """Mean D over the tasks of a mixture, of S seeds.

    Attributes
    ----------
    values : (S,)
    bootstrap : (resamples, S), on the same resampled examples wherever tasks are the same
    at_chance : whether a pruned model is at chance
    learnt : whether no unpruned model is
    """

    values: Floats
    bootstrap: Floats
    at_chance: bool
    learnt: bool

    @classmethod
    def of(cls, combined: Sampled) -> _Mean:
        at_chance, learnt = bool(combined.at_chance.any()), not combined.unpruned_at_chance.any()
        return cls(combined.d.mean(-1), combined.bootstrap.mean(-1), at_chance, learnt)


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
    A mixture counts nowhere for a method by which some unpruned model is at chance.
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
    found: dict[tuple[str, str], dict[str, _Mean]] = {}  # of mixtures, by model and method
    tasks_of: dict[str, frozenset[str]] = {}
    rows = []
    for run, means in mapped(of, groups, processes):
        tasks_of[run.mixture] = frozenset(run.tasks)
        for method, mean in means.items():
            found.setdefault((run.model, method), {})[run.mixture] = mean
    for model, of_model in itertools.groupby(found.items(), lambda item: item[0][0]):
        by_method = {method: means for (_, method), means in of_model}
        names = dict.fromkeys(itertools.chain(*by_method.values()))
        for name, mixtures in {**{name: [name] for name in names}, PAIRS: pairs}.items():
            rows += _methods(row, model, name, mixtures, by_method)
    across = {pair for pair in pairs if len({paradigms[t] for t in tasks_of.get(pair, ())}) > 1}
    for (model, method), means in found.items():
        kinds = [[means[p] for p in pairs if p in means and (p in across) == kind] for kind in (True, False)]
        if all(kinds):
            rows.append(row((model, "paradigms", method, ACROSS, WITHIN), *kinds))
    for (model, method), means in found.items():
        by_tasks = {tasks_of[mixture]: mixture for mixture in means}
        for tasks, mixture in by_tasks.items():
            for task in tasks.intersection(parents):
                other = by_tasks.get(tasks - {task} | {parents[task]})
                if parents[task] not in tasks and other:
                    key = (model, "pairs_of", method, mixture, other)
                    rows.append(row(key, [means[mixture]], [means[other]]))
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
    row: Callable[..., dict[str, Any]],
    model: str,
    name: str,
    mixtures: Sequence[str],
    means: Mapping[str, Mapping[str, _Mean]],
) -> list[dict[str, Any]]:
    """Every two methods compared, on the `mixtures` that both have."""
    rows = []
    for method, against in itertools.combinations(means, 2):
        both = [mixture for mixture in mixtures if mixture in means[method] and mixture in means[against]]
        if both:
            sides = ([means[of][mixture] for mixture in both] for of in (method, against))
            rows.append(row((model, "methods", method, name, against), *sides))
    return rows


def _row(
    key: tuple[str, ...], means: Sequence[_Mean], others: Sequence[_Mean], confidence: float
) -> dict[str, Any]:
    """A row of the table: the mean over `means` less that over `others`, without those that learnt nothing.

    Methods are compared on the same mixtures: one that one of them has not learnt is left out of both.
    """
    paired = key[1] == "methods"
    learnt = [[mean.learnt for mean in side] for side in (means, others)]
    if paired:
        learnt = [[a and b for a, b in zip(*learnt, strict=True)]] * 2
    sides = [[*itertools.compress(*side)] for side in zip((means, others), learnt, strict=True)]
    n, left = (sum(map(len, each[: 1 if paired else 2])) for each in ((means, others), sides))
    row: dict[str, Any] = dict(zip(list(CONTRASTS.columns)[: CONTRASTS.keys], key, strict=True)) | {
        "n_seeds": len(means[0].values),
        "n_mixtures": left,
        "n_at_chance": sum(mean.at_chance for side in sides for mean in side),
        "n_left_out": n - left,
    }
    if not all(sides):
        return row
    values, less = (np.mean([mean.values for mean in side], axis=0) for side in sides)
    bootstrap, without = (np.mean([mean.bootstrap for mean in side], axis=0) for side in sides)
    difference, resampled = values - less, bootstrap - without
    low, high, over = over_seeds_and_examples(difference, resampled, confidence)
    tested = len(difference) >= FEWEST
    return row | {
        "dissociation": values.mean(),
        "difference": difference.mean(),
        "ci_low": float(low),
        "ci_high": float(high),
        "ci_over": over,
        "p_value": float(p_over_seeds_and_examples(difference, resampled)) if tested else np.nan,
    }
