"""Comparison of rankings of heads: pruning curves and areas, and dissociation."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.values import BOTTOM, IMPORTANCE, MEAN, RANDOM, SAME_LAYERS, TOP
from headspec.errors import DataError
from headspec.statistics.atlas.pruning_curves import MATCHED, Curve, ResampledCurves, area_weights, sample
from headspec.statistics.dissociation.analysis import INTERVAL, KEY, dissociation_tables
from headspec.statistics.dissociation.analysis import SCHEMAS as DISSOCIATION
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.intervals import (
    TESTED,
    Orders,
    corrected,
    over_seeds_and_examples,
    p_over_seeds_and_examples,
)
from headspec.statistics.resampling import p_value
from headspec.tables import FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]

#: order: top or bottom heads of the ranking first; random orders belong to both; same_layers: the mean over
#: random orders with as many heads of each layer as the ranking from the top
ROW = dict.fromkeys(KEY, TEXT) | {"task": TEXT, "ranking": TEXT, "order": TEXT}
SCHEMAS = {
    # draws_low, draws_high: range of the random orders, else null
    "pruning_curves": Schema(
        ROW | {"fraction": FLOAT, "n_seeds": INT, "metric": TEXT, "value": FLOAT} | INTERVAL
        | {"draws_low": FLOAT, "draws_high": FLOAT},
        keys=7,
    ),
    # against: null for the area itself, else the ranking whose area is subtracted; small areas mean that
    # pruning in this order hurts soon; task and metric "mean": the mean over tasks
    "pruning_areas": Schema(
        ROW | {"against": TEXT, "n_seeds": INT, "metric": TEXT, "value": FLOAT} | INTERVAL | TESTED,
        keys=7,
        about={
            "against": "ranking whose area is subtracted, `random`, `importance`, or `same_layers`, random "
                "orders with as many heads of each layer; null for the area itself",
            "value": "[area](methods/atlas.md#which-measure-to-believe) under the pruning curve, a mean of "
                "the metric; or a difference of areas",
        },
    ),
    # the table 'combined' of dissociation, when the heads to prune are the top heads of a ranking
    "ranking_dissociation": Schema({"ranking": TEXT} | DISSOCIATION["combined"].columns, keys=5),
}  # fmt: skip


def _with_mean(values: Floats) -> Floats:
    """Append the mean over tasks to (..., k)."""
    return np.concatenate([values, values.mean(axis=-1, keepdims=True)], axis=-1)


def _interval_rows(
    tasks: dict[str, str],
    values: Floats,
    bootstrap: Floats,
    confidence: float,
    orders: Orders | None = None,
) -> list[dict[str, object]]:
    """Return rows for `tasks` (task: metric); `values` are (S, draws, k), `bootstrap` (resamples, S, k)."""
    if orders is None and values.shape[1] > 1:
        orders = Orders.estimate(values)
    low, high, over = over_seeds_and_examples(values.mean(axis=1), bootstrap, confidence, orders)
    columns = zip(tasks.items(), values.mean(axis=(0, 1)), low, high, strict=True)
    return [
        {"task": task, "metric": metric, "value": value, "ci_low": a, "ci_high": b, "ci_over": over}
        for (task, metric), value, a, b in columns
    ]


def _curve_rows(
    seeds: list[Curve], fractions: list[float], tasks: dict[str, str], confidence: float
) -> list[dict[str, object]]:
    rows = []
    for i, fraction in enumerate(fractions):
        values = np.stack([curve.values[:, i] for curve in seeds])
        bootstrap = np.stack([curve.bootstrap[:, i] for curve in seeds], axis=1)
        columns = _interval_rows(tasks, values, bootstrap, confidence)
        if values.shape[1] > 1:
            ends = values.min(axis=(0, 1)), values.max(axis=(0, 1))
            for row, low, high in zip(columns, *ends, strict=True):
                row |= {"draws_low": low, "draws_high": high}
        rows += [row | {"fraction": fraction} for row in columns]
    return rows


def _area_rows(
    name: str,
    by_ranking: dict[str, list[Curve]],
    fractions: list[float],
    tasks: dict[str, str],
    confidence: float,
) -> list[dict[str, object]]:
    """Return rows of the area of a ranking, and of its differences from other areas."""
    weights, curves, tasks = area_weights(fractions), by_ranking[name], tasks | {MEAN: MEAN}

    def areas(seeds: list[Curve]) -> tuple[Floats, Floats]:
        values = np.stack([weights @ curve.values for curve in seeds])
        bootstrap = np.stack([weights @ curve.bootstrap for curve in seeds], axis=1)
        return _with_mean(values), _with_mean(bootstrap)

    values, bootstrap = areas(curves)
    rows = _interval_rows(tasks, values, bootstrap, confidence)
    for other in (RANDOM, IMPORTANCE, SAME_LAYERS):
        compared_with = name + MATCHED if other == SAME_LAYERS else other
        if compared_with not in by_ranking or name in (RANDOM, other):
            continue
        base, base_bootstrap = areas(by_ranking[compared_with])
        difference, resampled = values - base, bootstrap - base_bootstrap  # from every random order
        orders, seeds_by_draws = None, difference.shape[0] * difference.shape[1]
        if other == IMPORTANCE:
            null = _with_mean(np.mean([curve.null for curve in curves], axis=0))
        else:
            orders = Orders.estimate(difference).with_one_more(seeds_by_draws)
            null = orders.null(resampled)
        here = p_value(difference.mean(axis=(0, 1)), null)
        seeds = p_over_seeds_and_examples(difference.mean(axis=1), resampled, orders)
        if orders:
            seeds = np.maximum(seeds, here)  # `here` accounts for how few orders there are
        compared = _interval_rows(tasks, difference, resampled, confidence, orders)
        for row, p, p_seeds in zip(compared, here, seeds, strict=True):
            rows.append(row | {"against": other, "p_value": float(p), "p_seeds": float(p_seeds)})
    return rows


def pruning_curves(
    evaluations: Iterable[PrunedPredictions], resamples: int, confidence: float, seed: int
) -> dict[str, pd.DataFrame]:
    """Return the tables `pruning_curves` and `pruning_areas`, combined over seeds.

    The area under the curve of metric by fraction pruned is computed by the trapezoid rule and divided by the
    range of fractions: a mean of the metric. With top heads first, a small area means that the ranking finds
    heads that matter; with bottom heads first, a large area means that it finds heads that do not. Intervals
    of `random` and `same_layers`, and of paired differences from them, also cover orders.

    p-values against `importance` are from permutations (see `sample`), for these masks. Those against
    `random` and `same_layers` are for these models: an uninformative ranking would be one more random order
    (see `intervals.Orders`). p_seeds covers other seeds, and against random orders also other orders. Both
    are corrected over the rankings compared with the same one in a model, mixture, method and order,
    separately for the mean and for all tasks.

    `evaluations` have the tables `cumulative` as predictions; one is in memory at a time. Raises DataError if
    rankings, fractions or examples of a task are incomplete, or differ between seeds.
    """
    groups: dict[tuple[tuple[str, ...], str], list[ResampledCurves]] = defaultdict(list)
    metrics: dict[tuple[str, ...], dict[str, str]] = {}
    for evaluation in evaluations:
        run = evaluation.run
        key: tuple[str, ...] = (run.model, run.mixture, run.method)
        metrics[key] = {task: evaluation.metrics[task] for task in run.tasks}
        for order, ordered in _by_order(evaluation):
            groups[key, order].append(sample(ordered, resamples, seed))
    rows: dict[str, list[dict[str, object]]] = {"pruning_curves": [], "pruning_areas": []}
    for (key, order), seeds in groups.items():
        by_ranking, tasks = _aligned(seeds), metrics[key]
        for ranking, curves in by_ranking.items():
            own, matched, _ = ranking.partition(MATCHED)
            names = dict(zip(KEY, key, strict=True)) | {
                "ranking": own, "order": SAME_LAYERS if matched else order,
            }  # fmt: skip
            fractions = seeds[0].fractions
            tables = {
                "pruning_curves": _curve_rows(curves, fractions, tasks, confidence),
                "pruning_areas": []
                if matched
                else _area_rows(ranking, by_ranking, fractions, tasks, confidence),
            }
            for name, table_rows in tables.items():
                rows[name] += [names | {"n_seeds": len(seeds)} | row for row in table_rows]
    result = {name: pd.DataFrame(rows[name], columns=list(SCHEMAS[name].columns)) for name in rows}
    areas = result["pruning_areas"]
    return result | {"pruning_areas": corrected(areas, _family(areas, "against", "order"))}


def _by_order(evaluation: PrunedPredictions) -> Iterator[tuple[str, PrunedPredictions]]:
    """Yield predictions with top heads pruned first, and with bottom heads, each with the random orders.

    Those with top heads first also have the random orders of the same layers, whose rankings end in
    `MATCHED`.
    """
    frame = evaluation.read()
    matched = frame["order"] == SAME_LAYERS
    frame = frame.assign(ranking=frame["ranking"].where(~matched, frame["ranking"] + MATCHED))
    for name in (TOP, BOTTOM):
        chosen = frame["order"] == name
        if chosen.any():
            beside = frame["order"].isna() | (matched if name == TOP else False)
            yield name, replace(evaluation, stored=frame[chosen | beside])


def _family(table: pd.DataFrame, *more: str) -> list[pd.Series]:
    """Return the columns by which rows are grouped into families for the correction of p-values."""
    return [*(table[column] for column in (*KEY, *more)), table["task"] == MEAN]


def _aligned(seeds: list[ResampledCurves]) -> dict[str, list[Curve]]:
    """Return the curves of all seeds by ranking.

    Raises DataError if seeds differ in examples, fractions or rankings.
    """
    first = seeds[0]
    for other in seeds[1:]:
        pairs = {
            "examples": (other.examples, first.examples),
            "fractions": (other.fractions, first.fractions),
            "rankings": (set(other.curves), set(first.curves)),
        }
        for what, (here, there) in pairs.items():
            if here != there:
                raise DataError(
                    f"{other.run.path}/cumulative.parquet: {what} differ from those of {first.run.path}"
                )
    return {ranking: [one.curves[ranking] for one in seeds] for ranking in first.curves}


def ranking_dissociation(
    evaluations: Sequence[PrunedPredictions],
    fraction: float,
    resamples: int,
    confidence: float,
    distinct: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `ranking_dissociation`: D if the top heads of a ranking are pruned.

    Only rankings that differ between tasks have D. Both p-values are corrected over the rankings and
    tasks of a model, mixture and method, separately for the mean. `evaluations` are as in `pruning_curves`,
    of at least two tasks; for other parameters see `dissociation_tables`.
    """
    frames = []
    names = {name for e in evaluations for name in e.read().dropna(subset="pruned_for")["ranking"].unique()}
    for ranking in sorted(names):
        pruned = (replace(e, stored=_as_predictions(e.read(), ranking, fraction)) for e in evaluations)
        tables = dissociation_tables(pruned, resamples, confidence, distinct, fraction, seed)
        frames.append(tables["combined"].assign(ranking=ranking))
    columns = list(SCHEMAS["ranking_dissociation"].columns)
    if not frames:
        return pd.DataFrame(columns=columns)
    table = pd.concat(frames, ignore_index=True)[columns]
    return corrected(table, _family(table))


def _as_predictions(frame: pd.DataFrame, ranking: str, fraction: float) -> pd.DataFrame:
    """Return rows of one ranking as the table `predictions` of dissociation."""
    rows = frame[(frame["ranking"] == ranking) & (frame["order"] == TOP)]
    plain = rows[(rows["fraction"] == 0) & (rows["pruned_for"] == rows["task"])]
    return pd.concat([plain.assign(pruned_for="none"), rows[rows["fraction"] == fraction]])
