"""Numbers of translation.md."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.attention import KINDS, first_rows
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.plots import importance
from pages import kept
from pages.kept import markdown, of_runs, rows_of, sides, table

STUDY = "translation"
TASKS = ("german", "french")
#: sets of heads that are pruned, and their names here
PRUNED = {
    "german": "German's",
    "french": "French's",
    "random": "random",
    "random_by_layer": "random, same layers",
}
#: BLEU of converged models (Wu et al. 2021)
CONVERGED = {"german": 41.0, "french": 61.8}
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


def agreement() -> str:
    """How far importance agrees between the languages of a seed, halves of its samples, and seeds; means."""
    between = table(STUDY, "reliability").groupby(["kind", "task"])[["spearman", "top_overlap"]].mean()
    rows = {"the languages, same seed": between.loc["tasks"].iloc[0]}  # the same of both
    for kind, what in {"split_half": "halves of the samples", "seeds": "two seeds"}.items():
        rows |= {f"{what}, {task}": between.loc[(kind, task)] for task in TASKS}
    lines = ([name, *(f"{value:.2f}" for value in values)] for name, values in rows.items())
    return markdown(["", "rank correlation", f"overlap of the top {FRACTION:.0%}"], lines)


def figure() -> Figure:
    """Maps of importance."""
    return importance.draw(of_runs(STUDY, "importance"), TASKS, TOP, LAYERS)


def _languages_share() -> bool:
    """The languages of a seed agree more than two seeds, and less than halves; no D is clear at 30 %."""
    means = table(STUDY, "reliability").groupby("kind")[["spearman", "top_overlap"]].agg(["min", "max"])
    both, halves, seeds = (means.loc[kind] for kind in ("tasks", "split_half", "seeds"))
    order = all(
        seeds[name, "max"] < both[name, "min"] and both[name, "max"] < halves[name, "max"]
        for name in ("spearman", "top_overlap")
    )
    return order and sides(rows_of(table(STUDY, "fractions"), fraction=FRACTION)) == {0}


def _below_converged() -> bool:
    """BLEU of both languages is at least seven points below that of converged models."""
    unpruned = pruned().loc["none"].iloc[0]
    return all(100 * unpruned[task] <= bleu - 7 for task, bleu in CONVERGED.items())


def _first_layers() -> bool:
    """At least 13 of the 14 most important heads are in first layers, and 12 in self-attention."""
    firsts = first_rows(LAYERS)
    for frame, task in itertools.product(of_runs(STUDY, "importance").values(), TASKS):
        heat = importance_map(frame, task)
        top = top_heads(heat, prune_count(TOP, heat.size))
        cross = top[firsts["cross"] : firsts["cross"] + LAYERS["cross"]].sum()
        if top[[*firsts.values()]].sum() < 13 or cross > 3 or top.sum() != 14:
            return False
    return True


def _more_than_layers() -> bool:
    """At 30 %, random heads of the same layers cost both languages less in each seed."""
    for frame in of_runs(STUDY, "pruning").values():
        found = rows_of(frame, metric="bleu", fraction=FRACTION)
        found = found[found["order"] != "bottom"].groupby(["pruned_for", "task"])["value"].mean().unstack()
        if not (found.loc["random_by_layer"] > found.loc[list(TASKS)].max()).all():
            return False
    return True


BLOCKS = {
    "translation: bleu": bleu,
    "translation: dissociation": dissociation,
    "translation: kinds": kinds,
    "translation: agreement": agreement,
}
FIGURES = {"translation.png": figure}
CLAIMS = {
    "translation.shared": _languages_share,
    "translation.layers": _first_layers,
    "translation.bleu": _below_converged,
    "translation.random": _more_than_layers,
}
