"""Numbers of groups of tasks."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.gains import draw_gains
from headspec.statistics.correlation import mantel_p, matrix_correlations, relabellings
from headspec.statistics.grouping import partition
from headspec.statistics.grouping.gains import Gains, measured_gains
from pages import kept
from pages.kept import bullets, markdown, points, sides, table

STUDY, STEPS, MODEL = "grouping", "grouping-steps", "minilm"
#: predictors of the second expectation
EXPECTED = ("lookahead", "grad-tag", "head-fisher")
#: numbers of encoders
ENCODERS = (2, 3)
#: random partitions
RANDOM = 1000


def _tasks(study: str) -> list[str]:
    return kept.config(study)["mixtures"]["pairs"]


def _alone(study: str) -> pd.DataFrame:
    """Rows of single tasks."""
    found = table(study, "gains")
    return found[found["method"] == "single"].set_index("task")


def _measured(study: str) -> Gains:
    metrics = _alone(study)["metric"].to_dict()
    return measured_gains(table(study, "gains"), _tasks(study), metrics, MODEL)


def gains(study: str) -> str:
    """What each task gains from the others, and from as many steps alone."""
    found, alone, steps = _measured(study), _alone(study), _alone(STEPS)
    tasks = found.tasks
    k = len(tasks)

    def rows() -> Iterator[list[str]]:
        for at, task in enumerate(tasks):
            column = found.gain[:, at]
            row = alone.loc[task]
            name = f"{task} ({row['metric']})" + (" ×" if row["unpruned_at_chance"] else "")
            twice = f"{100 * (steps['value'][task] - row['value']):+.1f}"
            if np.isnan(column).all():
                yield [name, f"{100 * row['value']:.1f}", twice, "", "", ""]
                continue
            weights = np.zeros((k, k))
            others = ~np.isnan(column)
            weights[others, at] = 1 / others.sum()
            mean = partition.value(weights, found.gain, found.low, found.high)
            best, worst = np.nanargmax(column), np.nanargmin(column)
            ends = [f"{tasks[i]} {100 * column[i]:+.1f}" for i in (best, worst)]
            yield [name, f"{100 * row['value']:.1f}", twice, points(*mean), *ends]

    head = ["task (metric)", "alone", "twice the steps", "mean gain", "most from", "least from"]
    return markdown(head, rows())


def scores(study: str) -> str:
    """How well each predictor ranks partners of a task that is left out."""
    found = table(study, "gain_prediction_scores")
    found = found[found["held_out"] == 1].sort_values("spearman", ascending=False)

    def rows() -> Iterator[list[str]]:
        for row in found[found["spearman"].notna()].itertuples():
            over = "" if pd.isna(row.over_baseline) else f"{row.over_baseline:+.2f}"
            yield [
                f"`{row.predictor}`",
                f"{row.spearman:.2f} [{row.spearman_low:.2f}, {row.spearman_high:.2f}]",
                "" if pd.isna(row.p_value) else f"{row.p_value:.3f} ({row.p_holm:.3f})",
                f"{100 * row.right_side:.0f}",
                f"{row.error_ratio:.2f}",
                over,
            ]

    head = ["predictor", "rank correlation", "p (Holm)", "right side, %", "error", "over `baseline`"]
    return markdown(head, rows())


def _score(study: str, predictor: str) -> pd.Series:
    found = table(study, "gain_prediction_scores")
    return found[(found["held_out"] == 1) & (found["predictor"] == predictor)].iloc[0]


def _against_dissociation(study: str, without: str | None = None) -> str:
    """Mantel correlation of a pair's mean gain with its D, and p; without a task."""
    found, combined = _measured(study), table(study, "combined")
    k = len(found.tasks)
    first, second = np.triu_indices(k, 1)
    both = (found.gain + found.gain.T) / 2
    means = combined[(combined["task"] == "mean") & (combined["method"] == "tuned")].set_index("mixture")
    d = [
        means["dissociation"][f"{found.tasks[a]}+{found.tasks[b]}"]
        for a, b in zip(first, second, strict=True)
    ]
    if without:
        at = found.tasks.index(without)
        both[at] = both[:, at] = np.nan
    known = ~np.isnan(both[first, second])
    kept_tasks = [task for task in found.tasks if task not in (*found.unlearnt, without)]
    assert known.sum() == len(kept_tasks) * (len(kept_tasks) - 1) / 2
    relabelled, _ = relabellings(len(kept_tasks), 0)
    r = matrix_correlations(np.array(d)[known], both[first, second][known], relabelled)
    return f"r {r[0]:.2f}, p {mantel_p(r):.3f}"


def expectations(study: str) -> str:
    """The four expectations, and what was found."""
    both, base = _score(study, "baseline+all"), _score(study, "baseline")
    singles = ", ".join(
        f"`{name}` {row['spearman']:.2f} ({row['p_holm']:.3f})"
        for name, row in ((name, _score(study, name)) for name in EXPECTED)
    )
    over = 100 * _chosen(study, 3)[2]
    answers = {
        "1. measures add to the tasks' mean gains": f"{both['spearman']:.2f} against {base['spearman']:.2f}, "
        f"p {both['p_value']:.3f}; detectable {both['detectable']:.2f}; "
        f"reliability of gains {both['reliability']:.2f}",
        "2. alone, three measures predict": f"rank correlation (p, Holm): {singles}",
        "3. pairs that dissociate less gain more": f"{_against_dissociation(study)} of D with gain; "
        f"without STS-B, which was not planned, {_against_dissociation(study, 'stsb')}",
        "4. three predicted groups beat random ones": f"{over:+.1f} points, by measured pairs; trained: "
        f"{100 * _trained(study, 3).gain:+.1f}, all ten together {points(*_trained(study, 1))}",
    }
    return markdown(["expectation", "found"], iter(answers.items()))


def _predicted(study: str) -> np.ndarray:
    found = table(study, "gain_predictions")
    rows = found[(found["held_out"] == 1) & (found["predictor"] == "baseline+all")]
    tasks = _tasks(study)
    wide = rows.pivot(index="source", columns="target", values="predicted")
    return wide.reindex(index=tasks, columns=tasks).to_numpy(dtype=float)


def _chosen(study: str, encoders: int) -> tuple[partition.Partition, float, float, float]:
    """Groups by predicted gains: their value, also minus random groups, and the best value."""
    found = _measured(study)
    k = len(found.tasks)
    learnt = [task for task in range(k) if found.tasks[task] not in found.unlearnt]
    at = np.ix_(learnt, learnt)
    gain, low, high = found.gain[at], found.low[at], found.high[at]
    chosen, _ = partition.best_partition(_predicted(study)[at], encoders)
    best, _ = partition.best_partition(gain, encoders)
    own = partition.weights(chosen, len(learnt))
    drawn = partition.random_partitions(len(learnt), len(chosen), RANDOM, 0)
    random = np.mean([partition.weights(one, len(learnt)) for one in drawn], axis=0)
    values = [
        partition.value(weights, gain, low, high).gain
        for weights in (own, own - random, partition.weights(best, len(learnt)))
    ]
    named = tuple(tuple(learnt[task] for task in group) for group in chosen)
    return named, *values


def _trained(study: str, encoders: int) -> partition.Value:
    """What the chosen groups gain, or all tasks together, when they are trained."""
    tasks, unlearnt = _tasks(study), _measured(study).unlearnt
    groups = [[tasks[task] for task in group] for group in _chosen(study, encoders)[0]]
    if encoders == 1:
        groups = [[task for task in tasks if task not in unlearnt]]
    found = partition.trained(table(study, "gains"), groups)
    assert found is not None
    return found


def groups(study: str) -> str:
    """Groups by predicted gains for several numbers of encoders, in measured pairs."""
    tasks = _tasks(study)

    def rows() -> Iterator[list[str]]:
        for encoders in ENCODERS:
            chosen, value, over, best = _chosen(study, encoders)
            names = "; ".join(", ".join(tasks[task] for task in group) for group in chosen)
            yield [str(encoders), names, *(f"{100 * gain:+.1f}" for gain in (value, over, best))]

    head = [
        "encoders",
        "groups by predicted gains",
        "gain",
        "minus random groups",
        "best of all, chosen by this gain",
    ]
    return markdown(head, rows())


def findings(study: str) -> str:
    """What the tables show, and no more."""
    scores = table(study, "gain_prediction_scores")
    scores = scores[(scores["held_out"] == 1) & scores["p_value"].notna()].set_index("predictor")
    both = scores.loc["baseline+all"]
    found, steps = _measured(study), _alone(STEPS)["value"] - _alone(study)["value"]
    at = found.tasks.index("stsb")
    gains_of = pd.DataFrame({"ci_low": found.low[:, at], "ci_high": found.high[:, at]}).dropna()
    trained = table(study, "gains")
    ten = trained[(trained["mixture"] == "ten") & ~trained["task"].isin(["mean", "stsb"])]["difference"]
    return bullets(
        [
            f"**No predictor is shown to work**: the smallest p is {scores['p_value'].min():.3f} "
            f"({scores['p_holm'].min():.3f} corrected). A correlation of {both['detectable']:.2f} by "
            f"`baseline+all` would be found with power 0.8. Differences between a task's gains have a "
            f"reliability of {both['reliability']:.2f} between seeds.",
            f"**STS-B** from its sources: {sides(gains_of)}. The best source gives it "
            f"{100 * np.nanmax(found.gain[:, at]):+.1f} points, twice the steps alone "
            f"{100 * steps['stsb']:+.1f}.",
            f"**All ten tasks together** gain {points(*_trained(study, 1))}; without STS-B the mean is "
            f"{100 * ten.mean():+.1f}.",
        ]
    )


def figure() -> Figure:
    """Measured and predicted gains, three groups outlined."""
    tasks, alone = _tasks(STUDY), _alone(STUDY)
    chosen = [[tasks[task] for task in group] for group in _chosen(STUDY, 3)[0]]
    metrics = {task: alone["metric"][task] for task in tasks}
    return draw_gains(table(STUDY, "gains"), table(STUDY, "gain_predictions"), metrics, chosen)


BLOCKS = {
    f"{STUDY}: {fill.__name__}": lambda fill=fill: fill(STUDY)
    for fill in (gains, scores, expectations, groups, findings)
}
FIGURES = {"grouping.png": figure}
