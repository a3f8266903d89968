"""Numbers of two languages of a translator."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from headspec.head_arrays import KINDS, first_rows
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.plots import importance
from pages import kept
from pages.kept import bullets, markdown, of_runs, points, sides, table

STUDY = "translation"
TASKS = ("german", "french")
#: sets of heads that are pruned, and their names here
PRUNED = {
    "german": "German's",
    "french": "French's",
    "random": "random",
    "random_by_layer": "random, same layers",
}
#: of each kind of attention
LAYERS = dict.fromkeys(KINDS, 6)
#: fraction of the heads whose kinds of attention are counted
TOP = 0.1
#: main fraction of heads to prune
FRACTION = 0.3
#: fractions of which the page has BLEU
SHOWN = (0.1, 0.3, 0.5)


def pruned() -> pd.DataFrame:
    """Means over seeds of BLEU: rows are sets of heads that are pruned and fractions, columns are tasks."""
    frame = pd.concat(of_runs(STUDY, "pruning"))
    frame = frame[(frame["metric"] == "bleu") & (frame["order"] != "bottom")]
    return frame.groupby(["pruned_for", "fraction", "task"])["value"].mean().unstack("task")


def bleu() -> str:
    """BLEU of both languages without pruning, and with each set of heads pruned."""
    means = pruned()
    unpruned = means.loc["none"].iloc[0]

    def rows() -> Iterator[list[str]]:
        yield ["none", *(f"{100 * unpruned[task]:.1f}" for task in TASKS for _ in SHOWN)]
        for whose, name in PRUNED.items():
            cells = [means[task].get((whose, fraction)) for task in TASKS for fraction in SHOWN]
            yield [name, *("" if cell is None else f"{100 * cell:.1f}" for cell in cells)]

    return markdown(["heads pruned", *(f"{task}, {f:.0%}" for task in TASKS for f in SHOWN)], rows())


def dissociation() -> str:
    """D of every language at every fraction, combined over seeds."""
    found = table(STUDY, "fractions").set_index(["task", "fraction"])
    fractions = sorted(found.index.unique("fraction"))

    rows = (
        [task, *(kept.dissociation(found.loc[(task, fraction)]) for fraction in fractions)]
        for task in (*TASKS, "mean")
    )
    return markdown(["task", *(f"D, {fraction:.0%}" for fraction in fractions)], rows)


def kinds() -> str:
    """Where the most important heads are, and the share of all importance by kind of attention."""

    def of_run(frame: pd.DataFrame, task: str) -> np.ndarray:
        heat = importance_map(frame, task)
        top = top_heads(heat, prune_count(TOP, heat.size))
        firsts = first_rows(LAYERS)
        of_kinds = [slice(first, first + LAYERS[kind]) for kind, first in firsts.items()]
        shares = [100 * heat[rows].sum() / heat.sum() for rows in of_kinds]
        return np.array([*(top[rows].sum() for rows in of_kinds), top[[*firsts.values()]].sum(), *shares])

    def rows() -> Iterator[list[str]]:
        for task in TASKS:
            means = np.mean([of_run(frame, task) for frame in of_runs(STUDY, "importance").values()], axis=0)
            yield [task, *(f"{n:.1f}" for n in means[:4]), *(f"{share:.0f}" for share in means[4:])]

    heads = [f"{where}, heads" for where in (*KINDS, "first layers")]
    return markdown(["task", *heads, *(f"{kind}, % of importance" for kind in KINDS)], rows())


def findings() -> str:
    """What the tables show, and no more."""
    between = table(STUDY, "reliability").groupby("kind")["spearman"].agg(["min", "max"])
    ranges = {kind: _range(*between.loc[kind]) for kind in ("tasks", "split_half", "seeds")}
    found = table(STUDY, "fractions")
    return bullets(
        [
            f"**Importance**: the two languages correlate by {ranges['tasks']} in the same seed, halves of "
            f"the samples by {ranges['split_half']}, two seeds by {ranges['seeds']} (Spearman).",
            f"**D**: of languages, {sides(found[found['task'] != 'mean'])}; of the mean, "
            f"{sides(found[found['task'] == 'mean'])}. Many are wide.",
            "**BLEU without random heads of the same layers** minus BLEU without the language's own, at "
            f"30 %: {', '.join(map(_random_heads, TASKS))} (intervals over seeds alone).",
        ]
    )


def _range(low: float, high: float) -> str:
    low, high = f"{low:.2f}", f"{high:.2f}"
    return low if low == high else f"{low} to {high}"


def _random_heads(task: str) -> str:
    """BLEU without random heads of the layers of a language's own, minus BLEU without its own."""
    by_seed = []
    for frame in of_runs(STUDY, "pruning").values():
        rows = frame[(frame["metric"] == "bleu") & (frame["order"] != "bottom") & (frame["task"] == task)]
        value = rows[(rows["fraction"] - FRACTION).abs() < 1e-9].groupby("pruned_for")["value"].mean()
        by_seed.append(value["random_by_layer"] - value[task])
    low, high = stats.t.interval(0.95, len(by_seed) - 1, np.mean(by_seed), stats.sem(by_seed))
    return f"{task} {points(float(np.mean(by_seed)), low, high)}"


def figure() -> Figure:
    """Maps of importance."""
    return importance.draw_importance(of_runs(STUDY, "importance"), TASKS, TOP, LAYERS)


BLOCKS = {
    "translation: bleu": bleu,
    "translation: dissociation": dissociation,
    "translation: kinds": kinds,
    "translation: findings": findings,
}
FIGURES = {"translation.png": figure}
