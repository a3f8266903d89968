"""Curves of cumulative pruning by each ranking of heads, on resampled and permuted examples."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.statistics.atlas.rankings import IMPORTANCE, RANDOM
from headspec.statistics.dissociation.resampled import Evaluation, drawn_units
from headspec.statistics.metrics import bootstrap_counts, score
from headspec.statistics.resampling import permuted_scores

Floats = NDArray[np.float64]

#: rankings that the others are compared with
BASELINES = (RANDOM, IMPORTANCE)


@dataclass(frozen=True)
class Curve:
    """Metrics of one run's k tasks under one ranking, at F fractions.

    Attributes
    ----------
    values : (draws, F, k); one draw unless the ranking is random
    bootstrap : (resamples, F, k), mean over the same draws
    null : (permutations, k), of the area minus that of importance; empty where there is no such test
    """

    values: Floats
    bootstrap: Floats
    null: Floats


def area_weights(fractions: Sequence[float]) -> Floats:
    """Weights (F,) of the trapezoid rule over `fractions`, divided by their range."""
    widths = np.diff(fractions)
    return (np.append(widths, 0) + np.append(0, widths)) / (2 * widths.sum())


def _wide(evaluation: Evaluation, task: str) -> pd.DataFrame:
    """Predictions of `task` under its rankings: rows (example, label), columns (ranking, draw, fraction)."""
    frame = evaluation.predictions
    own = frame[(frame["task"] == task) & (frame["pruned_for"].isna() | (frame["pruned_for"] == task))]
    own = own.assign(draw=own["draw"].fillna(0))
    wide = own.pivot(
        index=["example", "label"], columns=["ranking", "draw", "fraction"], values="prediction"
    ).sort_index()
    fractions = sorted(own["fraction"].unique())
    curves = sorted(set(own[["ranking", "draw"]].itertuples(index=False, name=None)))
    complete = [(*curve, fraction) for curve in curves for fraction in fractions]
    wide = wide.reindex(columns=pd.MultiIndex.from_tuples(complete, names=wide.columns.names))
    if len(fractions) < 2 or wide.isna().any(axis=None):
        raise DataError(
            f"{evaluation.run.path}/cumulative.parquet: task '{task}' lacks examples or fractions under "
            "some rankings"
        )
    return wide


def _fractions(wide: pd.DataFrame) -> list[float]:
    return [float(fraction) for fraction in wide.columns.unique("fraction")]


@dataclass(frozen=True)
class Sampled:
    """The curves of one run.

    Attributes
    ----------
    examples : hash of examples and labels
    curves : ranking: its curve
    """

    run: Run
    examples: str
    fractions: list[float]
    curves: dict[str, Curve]


def sample(evaluation: Evaluation, resamples: int, seed: int) -> Sampled:
    """The curves of one run, with bootstrap and permutations.

    Bootstrap: examples are drawn with replacement, the same ones for all rankings, fractions and seeds.

    Permutation: in each example, the predictions of two rankings at all fractions together are swapped or
    not, alike for all seeds. The hypothesis is that *these* masks do equally well on other examples.

    Examples that share texts are drawn and swapped by groups (see `dissociation.resampled.samples`).
    """
    by_ranking: dict[str, list[Curve]] = defaultdict(list)
    examples = hashlib.sha256()
    for task in evaluation.run.tasks:
        wide = _wide(evaluation, task)
        examples.update(np.array(wide.index.to_frame(), dtype=float).tobytes())
        for ranking, curve in _task_curves(evaluation, task, wide, resamples, seed).items():
            by_ranking[ranking].append(curve)
    curves = {
        ranking: Curve(
            np.stack([curve.values for curve in of_tasks], axis=-1),
            np.stack([curve.bootstrap for curve in of_tasks], axis=-1),
            np.stack([curve.null for curve in of_tasks], axis=-1),
        )
        for ranking, of_tasks in by_ranking.items()
    }
    return Sampled(evaluation.run, examples.hexdigest(), _fractions(wide), curves)


def _task_curves(
    evaluation: Evaluation, task: str, wide: pd.DataFrame, resamples: int, seed: int
) -> dict[str, Curve]:
    """Ranking: its curve of one task, without the axis k."""
    run, metric = evaluation.run, evaluation.metrics[task]
    label = wide.index.get_level_values("label").to_numpy(dtype=float)
    by_area = area_weights(_fractions(wide))
    names = ("pruning curves", run.model, run.mixture)
    numbers = wide.index.get_level_values("example").to_numpy(dtype=np.intp)
    source, units = drawn_units(evaluation, task, numbers)
    rng = np.random.default_rng(derive(seed, *names, source, "bootstrap"))
    weights = bootstrap_counts(units.number, resamples, rng)[:, units.of]
    known: dict[bytes, tuple[float, Floats]] = {}  # rankings agree at no head and at all heads

    def scores(predicted: Floats) -> tuple[float, Floats]:
        content = predicted.tobytes()
        if content not in known:
            known[content] = score(metric, label, predicted), score(metric, label, predicted, weights)
        return known[content]

    predictions = {
        str(ranking): wide[ranking].to_numpy(dtype=float) for ranking in wide.columns.unique("ranking")
    }
    curves = {}
    for ranking, predicted in predictions.items():  # (n, draws * F)
        found = [scores(column) for column in predicted.T]
        values = np.array([value for value, _ in found]).reshape(-1, len(by_area))
        resampled = np.stack([many for _, many in found], axis=-1).reshape(resamples, *values.shape)
        null = np.empty((0,))
        if IMPORTANCE in predictions and ranking not in BASELINES:
            pair = np.stack([predicted, predictions[IMPORTANCE]], axis=-1).swapaxes(0, 1)  # (F, n, 2)
            rng = np.random.default_rng(derive(seed, *names, source, "permutation"))
            swapped = permuted_scores(metric, label, pair, resamples, rng, units)
            null = (swapped[..., 0] - swapped[..., 1]) @ by_area
        curves[ranking] = Curve(values, resampled.mean(axis=1), null)
    return curves
