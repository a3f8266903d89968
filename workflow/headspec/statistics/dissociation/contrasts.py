"""Contrasts of dissociation: methods, kinds of pairs of tasks, and a task of text pairs or single texts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.processes import map_in_processes
from headspec.statistics.dissociation.pruned import PrunedPredictions, by_mixture
from headspec.statistics.dissociation.resampled import (
    ResampledDissociation,
    combine,
    resample_runs,
)
from headspec.statistics.intervals import corrected, tested
from headspec.tables import FLOAT, INT, TEXT, Schema

CONTRASTS = Schema(
    {"model": TEXT, "contrast": TEXT, "method": TEXT, "mixture": TEXT, "against": TEXT, "n_seeds": INT,
     "n_mixtures": INT, "n_at_chance": INT, "n_left_out": INT, "dissociation": FLOAT, "difference": FLOAT,
     "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_seeds": FLOAT, "p_seeds_holm": FLOAT},
    keys=5,
    about={
        "contrast": "`methods`; `paradigms`: pairs of a task on single texts and one on text pairs, against "
            "other pairs; `pairs_of`: a task of pairs against the task of their texts, with the same "
            "tasks",
        "mixture": "a mixture, or a mean: `pairs`, over `mixtures.pairs`; `across paradigms`, over some of "
            "them",
        "against": "a method, `within paradigms`, or a mixture",
        "n_mixtures": "mixtures that it rests on",
        "n_at_chance": "of these, with a pruned model at chance; in `methods`, counted for each",
        "n_left_out": "mixtures left out, with an unpruned model at chance by either method",
        "dissociation": "mean D over tasks, mixtures and seeds; null, as all that follows, without mixtures",
    },
)  # fmt: skip
#: `mixture` of the mean over all pairs
PAIRS = "pairs"
ACROSS, WITHIN = "across paradigms", "within paradigms"

Floats = NDArray[np.float64]


class _Mean(NamedTuple):
    """Mean D over the tasks of a mixture, for S seeds."""

    values: Floats  # (S,)
    bootstrap: Floats  # (resamples, S), on the same resampled examples wherever tasks are the same
    at_chance: bool  # some pruned model
    learnt: bool  # no unpruned model is at chance

    @classmethod
    def over_tasks(cls, combined: ResampledDissociation) -> _Mean:
        at_chance, learnt = bool(combined.at_chance.any()), not combined.unpruned_at_chance.any()
        return cls(combined.d.mean(-1), combined.bootstrap.mean(-1), at_chance, learnt)


def contrasts(
    evaluations: Iterable[PrunedPredictions],
    pairs: Sequence[str],
    paradigms: Mapping[str, str],
    parents: Mapping[str, str],
    fraction: float,
    resamples: int,
    confidence: float,
    seed: int,
    processes: int = 1,
) -> pd.DataFrame:
    """Return the table `contrasts`, at one fraction of heads; `evaluations` as in `dissociation_tables`.

    Tasks and mixtures are fixed, not a sample: intervals cover seeds and examples, or examples alone with one
    or two seeds. Means are over the mixtures `pairs`. All mixtures and methods are resampled on the same
    examples of a task, and differences are taken within a seed and a resample. A mixture whose unpruned model
    is at chance is left out for its method, and from comparisons of methods for both. p_seeds is corrected
    over the rows of a model and contrast; in `methods`, separately over means over mixtures.

    Parameters
    ----------
    paradigms : task: `single` or `pair`
    parents : task of pairs: the task of their texts
    """
    means = functools.partial(
        _means, fraction=fraction, resamples=resamples, confidence=confidence, seed=seed
    )
    row = functools.partial(_row, confidence=confidence)
    by_run: dict[tuple[str, str], dict[str, _Mean]] = {}  # of mixtures, by model and method
    tasks_of: dict[str, frozenset[str]] = {}
    rows = []
    for run, by_method in map_in_processes(means, by_mixture(evaluations), processes):
        tasks_of[run.mixture] = frozenset(run.tasks)
        for method, mean in by_method.items():
            by_run.setdefault((run.model, method), {})[run.mixture] = mean
    for model in dict.fromkeys(model for model, _ in by_run):
        methods = {method: mixtures for (name, method), mixtures in by_run.items() if name == model}
        names = dict.fromkeys(itertools.chain(*methods.values()))
        for name, compared in {**{name: [name] for name in names}, PAIRS: pairs}.items():
            rows += _methods(row, model, name, compared, methods)
    across = {pair for pair in pairs if len({paradigms[t] for t in tasks_of.get(pair, ())}) > 1}
    for (model, method), mixtures in by_run.items():
        kinds = [
            [mixtures[pair] for pair in pairs if pair in mixtures and (pair in across) == between]
            for between in (True, False)
        ]
        if all(kinds):
            rows.append(row((model, "paradigms", method, ACROSS, WITHIN), *kinds))
    for (model, method), mixtures in by_run.items():
        by_tasks = {tasks_of[mixture]: mixture for mixture in mixtures}
        for tasks, mixture in by_tasks.items():
            for task in tasks.intersection(parents):
                other = by_tasks.get(tasks - {task} | {parents[task]})
                if parents[task] not in tasks and other:
                    key = (model, "pairs_of", method, mixture, other)
                    rows.append(row(key, [mixtures[mixture]], [mixtures[other]]))
    frame = pd.DataFrame(rows, columns=list(CONTRASTS.columns))
    family = [frame["model"], frame["contrast"], frame["mixture"] == PAIRS]
    return corrected(frame, family)


def _means(
    evaluations: list[PrunedPredictions], fraction: float, resamples: int, confidence: float, seed: int
) -> tuple[Run, dict[str, _Mean]]:
    """Return the first run of one model and mixture, and its mean D by method."""
    runs = resample_runs(evaluations, [fraction], resamples, confidence, seed, permutations=1)
    by_method = itertools.groupby(runs, lambda sampled: sampled.run.method)
    means = {method: _Mean.over_tasks(combine(list(seeds)).at(0)) for method, seeds in by_method}
    return evaluations[0].run, means


def _methods(
    row: Callable[..., dict[str, object]],
    model: str,
    name: str,
    mixtures: Sequence[str],
    means: Mapping[str, Mapping[str, _Mean]],
) -> list[dict[str, object]]:
    """Return the rows that compare every two methods on the `mixtures` that both have."""
    rows = []
    for method, against in itertools.combinations(means, 2):
        both = [mixture for mixture in mixtures if mixture in means[method] and mixture in means[against]]
        if both:
            sides = ([means[side][mixture] for mixture in both] for side in (method, against))
            rows.append(row((model, "methods", method, name, against), *sides))
    return rows


def _row(
    key: tuple[str, ...], means: Sequence[_Mean], others: Sequence[_Mean], confidence: float
) -> dict[str, object]:
    """Return a row: the mean over `means` minus that over `others`, without those that learnt nothing.

    Methods are compared on the same mixtures: a mixture that either has not learnt is left out of both.
    """
    if key[1] == "methods":
        learnt = [pair for pair in zip(means, others, strict=True) if pair[0].learnt and pair[1].learnt]
        sides = [[pair[side] for pair in learnt] for side in (0, 1)]
        n, left = len(means), len(learnt)
    else:
        sides = [[mean for mean in side if mean.learnt] for side in (means, others)]
        n, left = len(means) + len(others), sum(map(len, sides))
    row: dict[str, object] = dict(zip(list(CONTRASTS.columns)[: CONTRASTS.keys], key, strict=True)) | {
        "n_seeds": len(means[0].values),
        "n_mixtures": left,
        "n_at_chance": sum(mean.at_chance for side in sides for mean in side),
        "n_left_out": n - left,
    }
    if not all(sides):
        return row
    values, reference = (np.mean([mean.values for mean in side], axis=0) for side in sides)
    bootstrap, without = (np.mean([mean.bootstrap for mean in side], axis=0) for side in sides)
    return row | {"dissociation": values.mean()} | tested(values - reference, bootstrap - without, confidence)
