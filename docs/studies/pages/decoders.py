"""Numbers of decoders.md."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots import matrix
from pages.kept import markdown, of_runs, points, table

STUDY = "decoders"
#: by which each task is judged
METRICS = dict.fromkeys(("sentiment", "topic", "question", "entailment"), "accuracy") | dict.fromkeys(
    ("subject-verb", "determiner-noun", "anaphor", "irregular"), "pair_accuracy"
)
FRACTION = 0.05
RANDOM = ("random", "random_by_layer")
#: number of heads: the study of minimal pairs alone in which it is the main one
GRAMMAR = {5: "decoders-grammar", 13: "decoders-grammar13"}


def pruned() -> pd.DataFrame:
    """Means over seeds of the main metric: a row for each of whose heads are pruned, how many, and task."""
    frame = pd.concat(of_runs(STUDY, "pruning"))
    frame = frame[frame["metric"] == frame["task"].map(METRICS)]
    return frame.groupby(["pruned_for", "n_pruned", "task"])["value"].mean().unstack("task")


def harm() -> str:
    """What every task is worth, and with its own, other tasks' and random heads pruned."""
    means = pruned()
    base, counts = means.loc["none"].iloc[0], sorted({n for name, n in means.index if name in METRICS})

    def rows() -> Iterator[list[str]]:
        for task in METRICS:
            own = [means.loc[(task, n), task] for n in counts]
            others = [means.loc[[(o, n) for o in METRICS if o != task], task].mean() for n in counts]
            random = [means.loc[(kind, counts[-1]), task] for kind in RANDOM]
            values = (base[task], *own, *others, *random)
            yield [task, *(f"{100 * value:.0f}" for value in values)]

    head = ["task", "unpruned", *(f"{whose} {n}" for whose in ("own", "others'") for n in counts)]
    return markdown([*head, f"random {counts[-1]}", "same layers"], rows())


def draws() -> str:
    """How far importance agrees between draws, means over pairs of them."""
    found = table(STUDY, "reliability")
    means = found[found["kind"] == "seeds"].groupby("task")[["spearman", "top_overlap"]].mean()
    names = {"spearman": "rank correlation", "top_overlap": "overlap of the top 5 %"}
    rows = ([names[column], *(f"{means.loc[task, column]:.2f}" for task in METRICS)] for column in names)
    return markdown(["", *METRICS], rows)


def dissociation() -> str:
    """D of every task at every number of heads, combined over seeds."""
    found = table(STUDY, "fractions").set_index(["task", "fraction"])
    fractions = sorted(found.index.unique("fraction"))

    def cell(task: str, fraction: float) -> str:
        row = found.loc[(task, fraction)]
        value = points(row["dissociation"], row["ci_low"], row["ci_high"])
        return value + (" †" if row["at_chance"] else "")

    counts = sorted({n for name, n in pruned().index if name in METRICS})
    rows = ([task, *(cell(task, fraction) for fraction in fractions)] for task in (*METRICS, "mean"))
    return markdown(["task", *(f"D, {n}" for n in counts)], rows)


def specific() -> str:
    """D with the heads of two rankings pruned, at two numbers of heads, and what is left of each task."""
    curves = table("decoders-grammar13", "pruning_curves").query("order != 'bottom'")
    left = curves.set_index(["task", "ranking", "fraction"])["value"]
    found = {
        n: table(study, "ranking_dissociation").set_index(["task", "ranking"]) for n, study in GRAMMAR.items()
    }

    def cells(task: str) -> Iterator[str]:
        for dissociation in found.values():
            for ranking in ("importance", "specific"):
                row = dissociation.loc[(task, ranking)]
                value = points(row["dissociation"], row["ci_low"], row["ci_high"])
                pruned = "" if task == "mean" else f"{100 * left.loc[(task, ranking, row['fraction'])]:.0f}, "
                yield pruned + value + (" †" if row["at_chance"] else "")

    tasks = [task for task, metric in METRICS.items() if metric == "pair_accuracy"]
    base = {task: f"{100 * left.loc[(task, 'importance', 0.0)]:.0f}" for task in tasks} | {"mean": ""}
    names = [f"{n} most {what}" for n in found for what in ("important", "specific")]
    return markdown(["task", "unpruned", *names], ([task, base[task], *cells(task)] for task in base))


def figure() -> Figure:
    """The pruning matrix."""
    return matrix.draw(of_runs(STUDY, "pruning"), [*METRICS], FRACTION, METRICS)


BLOCKS = {
    "decoders: harm": harm,
    "decoders: dissociation": dissociation,
    "decoders: draws": draws,
    "decoders: specific": specific,
}
FIGURES = {"decoders.png": figure}
