"""Curves of cumulative pruning by each ranking of heads, on resampled and permuted examples."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.config.values import IMPORTANCE, RANDOM, SAME_LAYERS
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.dissociation.pruned import PrunedPredictions, drawn_clusters
from headspec.statistics.resampling import Predictions, permuted_scores, task_predictions
from headspec.tasks.metrics import bootstrap_counts, score

Floats = NDArray[np.float64]

#: rankings that the others are compared with
BASELINES = (RANDOM, IMPORTANCE)
#: end of the names of random orders with as many heads of each layer as a ranking; its own name has no comma
MATCHED = f", {SAME_LAYERS}"


@dataclass(frozen=True)
class Curve:
    """Metrics of one run's k tasks under one ranking, at F fractions."""

    values: Floats  # (draws, F, k); one draw unless the ranking is random
    bootstrap: Floats  # (resamples, F, k), mean over the same draws
    null: Floats  # (permutations, k), area minus that of importance; empty without such a test


def area_weights(fractions: Sequence[float]) -> Floats:
    """Return weights (F,) of the trapezoid rule over increasing `fractions`, divided by their range."""
    widths = np.diff(fractions)
    weights: Floats = (np.append(widths, 0) + np.append(0, widths)) / (2 * widths.sum())
    return weights


def _ranked_predictions(evaluation: PrunedPredictions, task: str) -> tuple[pd.MultiIndex, Predictions]:
    """Return the (ranking, draw, fraction) of each set, and the predictions of `task` under its rankings."""
    frame = evaluation.read()
    rows = frame[(frame["task"] == task) & (frame["pruned_for"].isna() | (frame["pruned_for"] == task))]
    rows = rows.assign(draw=rows["draw"].fillna(0))
    fractions = sorted(rows["fraction"].unique())
    curves = sorted(set(rows[["ranking", "draw"]].itertuples(index=False, name=None)))
    complete = [(*curve, fraction) for curve in curves for fraction in fractions]
    where = f"{evaluation.run.path}/cumulative.parquet: task '{task}'"
    if len(fractions) < 2:
        raise DataError(f"{where} lacks fractions")
    sets = pd.MultiIndex.from_tuples(complete, names=["ranking", "draw", "fraction"])
    return sets, task_predictions(rows, task, sets, where)


def _fractions(sets: pd.MultiIndex) -> list[float]:
    return [float(fraction) for fraction in sets.unique("fraction")]


@dataclass(frozen=True)
class ResampledCurves:
    """The curves of one run."""

    run: Run
    examples: str  # hash of examples and labels
    fractions: list[float]
    curves: dict[str, Curve]  # by ranking


def sample(evaluation: PrunedPredictions, resamples: int, seed: int) -> ResampledCurves:
    """Return the curves of one run, with bootstrap and permutations.

    In the bootstrap, examples are drawn with replacement, the same for all rankings, fractions and seeds. In
    a permutation, the predictions of a ranking and of `importance` are swapped in random examples, at all
    fractions together, and in the same way for all seeds. The hypothesis is that *these* masks do equally
    well on other examples. Examples that share texts are drawn and swapped in groups (see
    `dissociation.matrices.resample_matrices`). Raises DataError if predictions are missing.
    """
    by_ranking: dict[str, list[Curve]] = defaultdict(list)
    examples = hashlib.sha256()
    for task in evaluation.run.tasks:
        sets, predicted = _ranked_predictions(evaluation, task)
        examples.update(predicted.content)
        for ranking, curve in _task_curves(evaluation, task, sets, predicted, resamples, seed).items():
            by_ranking[ranking].append(curve)
    curves = {
        ranking: Curve(
            np.stack([curve.values for curve in tasks], axis=-1),
            np.stack([curve.bootstrap for curve in tasks], axis=-1),
            np.stack([curve.null for curve in tasks], axis=-1),
        )
        for ranking, tasks in by_ranking.items()
    }
    return ResampledCurves(evaluation.run, examples.hexdigest(), _fractions(sets), curves)


def _task_curves(
    evaluation: PrunedPredictions,
    task: str,
    sets: pd.MultiIndex,
    predicted: Predictions,
    resamples: int,
    seed: int,
) -> dict[str, Curve]:
    """Return the curve of one task by ranking, without the axis k."""
    run, metric = evaluation.run, evaluation.metrics[task]
    label, by_area = predicted.label, area_weights(_fractions(sets))
    names = ("pruning curves", run.model, run.mixture)
    source, clusters = drawn_clusters(evaluation, task, predicted.example)
    rng = np.random.default_rng(derive(seed, *names, source, "bootstrap"))
    weights = bootstrap_counts(clusters.number, resamples, rng)[:, clusters.cluster]
    cache: dict[bytes, tuple[float, Floats]] = {}  # rankings agree at no head and at all heads

    def scores(mask: Floats) -> tuple[float, Floats]:
        content = mask.tobytes()
        if content not in cache:
            cache[content] = score(metric, label, mask), score(metric, label, mask, weights)
        return cache[content]

    predictions = {
        str(ranking): predicted.prediction[sets.get_level_values("ranking") == ranking]
        for ranking in sets.unique("ranking")
    }
    curves = {}
    for ranking, masks in predictions.items():  # (draws * F, n, ...)
        scored = [scores(mask) for mask in masks]
        values = np.array([value for value, _ in scored]).reshape(-1, len(by_area))
        resampled = np.stack([many for _, many in scored], axis=-1).reshape(resamples, *values.shape)
        null = np.empty((0,))
        if IMPORTANCE in predictions and ranking not in BASELINES and not ranking.endswith(MATCHED):
            pair = np.stack([masks, predictions[IMPORTANCE]], axis=1)  # (F, 2, n, ...)
            rng = np.random.default_rng(derive(seed, *names, source, "permutation"))
            swapped = permuted_scores(metric, label, pair, resamples, rng, clusters)
            null = (swapped[..., 0] - swapped[..., 1]) @ by_area
        curves[ranking] = Curve(values, resampled.mean(axis=1), null)
    return curves
