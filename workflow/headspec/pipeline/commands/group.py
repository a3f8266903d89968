"""Groups of tasks that should share an encoder, from the tables of a finished study."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec import tables
from headspec.config.values import BASELINE
from headspec.errors import HeadspecError, MissingError, listing, nearest
from headspec.numbers import plain
from headspec.plots.drawing.style import save
from headspec.plots.gains import draw_gains
from headspec.statistics.grouping import partition
from headspec.statistics.grouping.gains import features, measured_gains
from headspec.statistics.grouping.partition import Partition, Value
from headspec.statistics.grouping.prediction import BOTH
from headspec.statistics.resampling import SIGNIFICANCE

Floats = NDArray[np.float64]

#: choice of groups by measured gains
MEASURED = "measured"
#: the best groups by measured gains, compared with others
BEST = "best by measured gains"
#: number of random groups that the chosen ones are compared with
RANDOM = 1000
TABLES = ("gains", "gain_predictions", "gain_prediction_scores", "similarity")
LABEL, GAIN = 26, 21  # width of a line's label, and of a gain before the tasks of a group
DPI = 200


class Pairs(NamedTuple):
    """Gains of a model's k tasks from each other; matrices are (k, k), [source, target]."""

    tasks: list[str]
    metrics: dict[str, str]  #: main metrics
    by: str  #: what `value` is: `measured`, a predictor, or a measure of similarity
    value: Floats  #: what groups are chosen by
    gain: Floats | None = None  #: measured gains, with the ends of their intervals
    low: Floats | None = None
    high: Floats | None = None
    unlearnt: tuple[str, ...] = ()  #: tasks left out because no model learns them

    def group_names(self, groups: Partition) -> list[list[str]]:
        """Return the names of the tasks of each group."""
        return [[self.tasks[task] for task in group] for group in groups]


def group_tasks(results: Path, encoders: int, by: str | None = None, figure: Path | None = None) -> str:
    """Return groups of tasks for at most `encoders` encoders, by model, with what is known of their gains.

    Groups are chosen by measured gains if all pairs were trained, else by gains predicted by `baseline+all`;
    without gains, by a measure of similarity. `by` names another choice. The figure is written to `figure`,
    by default in `results`; with several models, each has one, with its name added. Raises MissingError
    without any of these tables; HeadspecError for an unknown `by`, or if `encoders` is not from 1 to the
    number of tasks.
    """
    paths = {name: results / "tables" / f"{name}.parquet" for name in TABLES}
    frames = {name: tables.read(path.absolute()) for name, path in paths.items() if path.exists()}
    pairs_table = frames.get("gains", frames.get("similarity"))
    if pairs_table is None:
        raise MissingError(
            f"{results}: no tables/gains.parquet; expected results of `snakemake grouping`, or of a study "
            "with similarity.measures"
        )
    sections = []
    models = list(pairs_table["model"].unique())
    for model in models:
        own = {name: frame[frame["model"] == model] for name, frame in frames.items()}
        pairs = _pairs(own, model, by)
        if not 1 <= encoders <= len(pairs.tasks):
            raise HeadspecError(
                f"--encoders: got {encoders}, expected 1 to {len(pairs.tasks)}, the number of tasks"
            )
        chosen, exact = partition.best_partition(pairs.value, encoders)
        lines = [*_groups(pairs, model, chosen, exact, encoders), *_worth(pairs, chosen, encoders, own)]
        if pairs.gain is not None:
            name = figure or results / "groups.png"
            if len(models) > 1:
                name = name.with_name(f"{name.stem}.{model}{name.suffix}")
            _draw(own, pairs, chosen, name)
            lines += ["", *_sure(own), "", f"{'figure':<{LABEL}}{name}"]
        sections.append("\n".join([*lines, "", *_snippet(pairs, chosen)]))
    return "\n\n\n".join(sections)


def _pairs(frames: dict[str, pd.DataFrame], model: str, by: str | None) -> Pairs:
    """Return the gains or similarities that groups are chosen by."""
    if "gains" not in frames:
        return _similar(frames["similarity"], model, by)
    alone = frames["gains"].query("method == 'single'")
    metrics = dict(zip(alone["task"], alone["metric"], strict=True))
    mixtures = frames["gains"]["mixture"].unique()
    tasks = _in_order([tuple(name.split("+")) for name in mixtures if name.count("+") == 1])
    gains = measured_gains(frames["gains"], tasks, metrics, model)
    learnt = [task for task in tasks if task not in gains.unlearnt]
    at = np.ix_(*2 * [[tasks.index(task) for task in learnt]])
    gain, low, high = gains.gain[at], gains.low[at], gains.high[at]
    matrices = {MEASURED: gain}
    predictions = frames.get("gain_predictions", pd.DataFrame(columns=["held_out", "predictor", "predicted"]))
    for name, rows in predictions[predictions["held_out"] == 1].groupby("predictor", sort=False):
        wide = rows.pivot(index="source", columns="target", values="predicted")
        matrices[str(name)] = wide.reindex(index=learnt, columns=learnt).to_numpy(dtype=float)
    off = ~np.eye(len(learnt), dtype=bool)
    known = {name: matrix for name, matrix in matrices.items() if not np.isnan(matrix[off]).all()}
    by = by or (BOTH if np.isnan(gain[off]).any() and BOTH in known else MEASURED)
    return Pairs(learnt, metrics, by, _named(known, by), gain, low, high, gains.unlearnt)


def _similar(similarity: pd.DataFrame, model: str, by: str | None) -> Pairs:
    """Return the pairs of a study without measured gains."""
    tasks = _in_order(list(zip(similarity["task_a"], similarity["task_b"], strict=True)))
    measures = features(similarity, None, tasks, model)
    by = by or next(iter(measures))
    return Pairs(tasks, {}, by, _named(measures, by))


def _in_order(pairs: list[tuple[str, ...]]) -> list[str]:
    """Return the tasks of all pairs in the config's order, which is also that within pairs."""
    second = pd.Series([b for _, b in dict.fromkeys(pairs)]).value_counts()
    return sorted(
        dict.fromkeys(task for pair in pairs for task in pair), key=lambda task: second.get(task, 0)
    )


def _named(matrices: dict[str, Floats], by: str) -> Floats:
    if by not in matrices:
        raise HeadspecError(f"--by: got '{by}', expected {listing(matrices)}.{nearest(by, matrices)}")
    return matrices[by]


def _groups(pairs: Pairs, model: str, chosen: Partition, exact: bool, encoders: int) -> Iterator[str]:
    """Yield the groups, each with its value."""
    searched = "" if exact else ", by annealing: not sure to be the best"
    what = pairs.by if pairs.gain is None else f"gains predicted by {pairs.by}"
    what = "measured gains" if pairs.by == MEASURED else what
    if pairs.unlearnt:
        yield f"{model}: left out, at chance alone and in every pair: {', '.join(pairs.unlearnt)}"
    yield f"{model}: {len(pairs.tasks)} tasks, {len(chosen)} encoders, by {what}{searched}"
    for number, (group, names) in enumerate(zip(chosen, pairs.group_names(chosen), strict=True), 1):
        text = ""
        if pairs.gain is not None:
            own = partition.weights((group,), len(pairs.tasks)) * len(pairs.tasks) / len(group)
            text = _points(_value(pairs, own), interval=encoders == 1) if len(group) > 1 else "alone"
        yield f"  {number}  {text:<{GAIN}}{', '.join(names)}"


def _worth(pairs: Pairs, chosen: Partition, encoders: int, frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Yield the gains of these and other groups, from measured gains of pairs.

    Chosen groups have no interval, nor has their gain once trained. All gains of a task share its single-task
    run: if that is poor by chance, measured gains are too high, and so are gains predicted from them and
    those of trained groups.
    """
    k = len(pairs.tasks)
    if pairs.gain is None:
        yield ""
        yield "Gains between these tasks were not measured: there is no evidence that these groups are good."
        yield "`snakemake grouping` trains each task alone, to measure them."
        return
    random = partition.random_partitions(k, len(chosen), RANDOM, seed=0)
    weights = {
        "these groups": partition.weights(chosen, k),
        "all together": partition.weights((tuple(range(k)),), k),
        f"{len(chosen)} random groups, mean": np.mean([partition.weights(one, k) for one in random], axis=0),
    }
    if pairs.by != MEASURED and not np.isnan(pairs.gain[~np.eye(k, dtype=bool)]).any():
        best, _ = partition.best_partition(pairs.gain, encoders)
        weights[BEST] = partition.weights(best, k)
    yield ""
    yield "mean gain of a task over its single-task model, in points, from measured pairs"
    last = list(weights)[2]
    lines = {name: _value(pairs, own) for name, own in weights.items()}
    lines["these minus random"] = _value(pairs, weights["these groups"] - weights[last])
    saved = k - len(chosen)
    if saved:
        lines[per := f"for each of {saved} saved"] = Value(*(each / saved for each in lines["these groups"]))
    if (trained := partition.trained(frames["gains"], pairs.group_names(chosen))) is not None:
        lines["these groups, trained"] = trained
    for name, value in lines.items():
        judged = encoders == 1 or name in ("all together", last)  # there is only one way to use one encoder
        yield f"{name:<{LABEL}}{_points(value, 2 if saved and name == per else 1, judged)}"
    if encoders > 1:
        yield "Groups chosen by gains, measured or predicted, have no interval. To judge them, train them and"
        yield "each task alone in a study with other seeds."


def _value(pairs: Pairs, weights: Floats) -> Value:
    """Return the weighted mean of measured gains, with its interval."""
    assert pairs.gain is not None and pairs.low is not None and pairs.high is not None
    return partition.value(weights, pairs.gain, pairs.low, pairs.high)


def _sure(frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Yield how reliable measured and predicted gains are."""
    scores = frames.get("gain_prediction_scores", pd.DataFrame(columns=["held_out", "predictor"]))
    scores = scores[scores["held_out"] == 1].set_index("predictor")
    if BOTH not in scores.index or pd.isna(scores["spearman"][BOTH]):
        yield "Too few tasks to test whether gains can be predicted: five are needed."
        return
    both, base = scores.loc[BOTH], scores.loc[BASELINE]
    if pd.notna(both["reliability"]):
        yield f"{'reliability of gains':<{LABEL}}{plain(both['reliability'])} between seeds"
    yield (
        f"{'predictions':<{LABEL}}rank correlation {plain(both['spearman'])} "
        f"[{plain(both['spearman_low'])}, {plain(both['spearman_high'])}] for a task left out;"
    )
    yield f"{'':<{LABEL}}{plain(base['spearman'])} by the tasks' mean gains alone;"
    yield f"{'':<{LABEL}}p {both['p_value']:.3f} of what measures add"
    if both["p_value"] < SIGNIFICANCE:
        yield "Measures of tasks predict partners better than the tasks' mean gains alone."
    else:
        yield "Measures of tasks do not clearly predict partners better than the tasks' mean gains alone."
        yield f"Do not trust predicted groups. Power is 0.8 at a correlation of {plain(both['detectable'])}."


def _snippet(pairs: Pairs, chosen: Partition) -> Iterator[str]:
    """Yield the mixtures for the config."""
    groups = [group for group in pairs.group_names(chosen) if len(group) > 1]
    alone = [group[0] for group in pairs.group_names(chosen) if len(group) == 1]
    yield "mixtures:"
    if groups:
        yield "  groups:"
        yield from (f"    encoder-{n}: [{', '.join(group)}]" for n, group in enumerate(groups, 1))
    if alone:
        yield f"  single: [{', '.join(alone)}]"


def _draw(frames: dict[str, pd.DataFrame], pairs: Pairs, chosen: Partition, path: Path) -> None:
    metrics = {task: pairs.metrics[task] for task in (*pairs.tasks, *pairs.unlearnt)}
    figure = draw_gains(frames["gains"], frames.get("gain_predictions"), metrics, pairs.group_names(chosen))
    save(figure, [path], DPI)


def _points(value: Value, digits: int = 1, interval: bool = True) -> str:
    """Return ``+0.8 [-0.1, 1.7]``, the gain alone, or that it is not known."""
    if np.isnan(value.gain):
        return "not known: pairs were not trained"
    gain, low, high = (100 * each for each in value)
    return f"{gain:+.{digits}f}" + f" [{low:.{digits}f}, {high:.{digits}f}]" * interval
