"""Numbers of gates.md."""

import itertools
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.plots.gates import budgets as budgets_plot
from pages.kept import markdown, points, rounded, rows_of, sides, table

#: tasks of the study of gates, and its two models
TASKS = ("qnli", "sst2")
#: fractions of heads kept that the page shows, of those that the tables have
SHOWN = (0.1, 0.3, 0.5)
#: pruning method, and the one that it is compared with
COMPARED = [
    ("importance", "whole"),
    ("random", "importance"),
    ("l0", "importance"),
    ("l0-target", "importance"),
    ("subset", "importance"),
    ("dynamic", "static"),
    ("pretrained", "whole"),
    ("fresh", "whole"),
]
#: pruning methods whose kept heads are compared
CHOSEN = ("importance", "l0", "subset", "dynamic")


def budgets(study: str) -> str:
    """Differences between pruning methods by the number of heads kept."""
    found = table(study, "budgets")
    found = found[(found["metric"] == "accuracy") & found["fraction"].isin(SHOWN)]
    fractions = sorted(found["fraction"].unique())
    known = set(found["way"]) | set(found["against"])

    def rows() -> Iterator[list[str]]:
        for task, (method, other) in itertools.product(TASKS, COMPARED):
            if not {method, other} <= known:
                continue
            of_task = found[(found["task"] == task) & (found["way"] == method) & (found["against"] == other)]
            by_fraction = of_task.set_index("fraction").to_dict("index")
            cells = []
            for fraction in fractions:
                cell = by_fraction[fraction]
                mark = " *" if cell["p_holm"] < 0.05 else ""
                cells.append(points(cell["difference"], cell["ci_low"], cell["ci_high"]) + mark)
            yield [task, f"`{method}` less `{other}`", *cells]

    return markdown(["task", "heads kept", *(f"{fraction:.0%}" for fraction in fractions)], rows())


def overlap(study: str) -> str:
    """What seeds keep alike, beside what their numbers by layer would give."""
    found = table(study, "overlap")
    found = found[(found["what"] == "seeds") & (found["a"] == "mean") & found["fraction"].isin(SHOWN)]
    fractions = sorted(found["fraction"].unique())

    def rows() -> Iterator[list[str]]:
        for task, method in itertools.product(TASKS, CHOSEN):
            group = found[(found["mixture"] == task) & (found["way"] == method)]
            of_method = group.set_index("fraction").to_dict("index")
            cells = []
            for fraction in fractions:
                cell = of_method[fraction]
                mark = " *" if cell["p_holm"] < 0.05 else ""
                cells.append(f"{cell['jaccard']:.2f} ({cell['jaccard_by_layer']:.2f}){mark}")
            yield [task, f"`{method}`", *cells]

    return markdown(["task", "heads kept", *(f"{fraction:.0%}" for fraction in fractions)], rows())


def figure(study: str) -> Figure:
    """The metric by heads kept, a panel for each task."""
    found = table(study, "budgets")
    names = list(dict.fromkeys(method for pair in COMPARED for method in pair if method in set(found["way"])))
    found = found[found["way"].isin(names)]
    return budgets_plot.draw(
        found,
        dict.fromkeys(TASKS, "accuracy"),
        PRUNING_METHODS.labels(names),
        PRUNING_METHODS.places(names),
    )


#: studies of gates, and their numbers of heads
STUDIES = {"gates-minilm": 72, "gates-bge": 144}


def _budget(study: str, way: str, against: str, fraction: float | None) -> pd.DataFrame:
    """Rows of both tasks that compare two pruning methods at a fraction; None is their own number."""
    found = rows_of(table(study, "budgets"), metric="accuracy", way=way, against=against, fraction=fraction)
    return found.set_index("task").loc[list(TASKS)]


def _most_heads_can_go() -> bool:
    """With the most important 30 %, no mean is below the whole model's; ends of intervals are as printed."""
    found = [_budget(study, "importance", "whole", 0.3) for study in STUDIES]
    ends = [rounded(low, 1) for rows in found for low in rows["ci_low"]]
    return all((rows["difference"] >= 0).all() for rows in found) and ends == [-8.1, -3.4, -3.4, -2.4]


def _no_gates_win() -> bool:
    """No interval of learnt gates less importance is above 0."""
    found = pd.concat(
        [rows_of(table(study, "budgets"), metric="accuracy", against="importance") for study in STUDIES]
    )
    return 1 not in sides(found[found["way"].isin(["l0", "l0-target", "subset"])])


def _dynamic_keeps_fewer() -> bool:
    """Dynamic gates keep fewer heads than static ones, and no interval of their score is above 0."""
    found = {study: _budget(study, "dynamic", "static", None) for study in STUDIES}
    other = {study: _budget(study, "static", "whole", None)["heads"] for study in STUDIES}
    heads = [[round(n) for n in each] for study in STUDIES for each in (found[study]["heads"], other[study])]
    return heads == [[0, 17], [69, 62], [11, 27], [128, 100]] and all(
        1 not in sides(f) for f in found.values()
    )


def _weights_matter() -> bool:
    """From fresh weights, MiniLM loses on both tasks, after correction, and has at most 55 % on QNLI."""
    found = pd.concat([_budget("gates-minilm", "fresh", "whole", fraction) for fraction in SHOWN])
    clear = sides(found) == {-1} and bool((found["p_holm"] < 0.05).all())
    return clear and found.loc["qnli", "value"].max() < 0.55


def _gates_correlate() -> bool:
    """Correlations of the gates of seeds, by method."""
    found = pd.concat(
        [rows_of(table(study, "overlap"), what="seeds", a="mean", fraction=None) for study in STUDIES]
    )
    ends = [
        found[found["way"].isin(ways)]["correlation"].agg(["min", "max"]).round(2).tolist()
        for ways in (["l0", "static"], ["dynamic"])
    ]
    return ends == [[0.28, 0.5], [0.43, 0.63]]


def _seeds_agree() -> bool:
    """Seeds agree on important heads except on half of them for QNLI, and on none of MiniLM's `l0`."""
    found = pd.concat({study: rows_of(table(study, "overlap"), what="seeds", a="mean") for study in STUDIES})
    important = found[found["way"].eq("importance")]
    unclear = important[important["p_holm"] >= 0.05][["mixture", "fraction"]]
    l0 = rows_of(found.loc["gates-minilm"], way="l0")
    return unclear.to_numpy().tolist() == [["qnli", 0.5]] and bool((l0["p_holm"] >= 0.05).all())


def _one_role() -> bool:
    """One method, number of heads and task keeps clearly more or fewer heads with a role."""
    found = pd.concat({study: table(study, "role_counts") for study in STUDIES})
    clear = found[found["p_holm"] < 0.05]
    (row,) = clear[["mixture", "way", "fraction", "role"]].to_numpy().tolist()
    numbers = clear[["kept", "kept_by_layer"]].round(1).to_numpy().tolist()
    return row == ["sst2", "dynamic", 0.1, "positional"] and numbers == [[3.0, 0.8]]


BLOCKS = {
    "gates-minilm: budgets": lambda: budgets("gates-minilm"),
    "gates-bge: budgets": lambda: budgets("gates-bge"),
    "gates-minilm: overlap": lambda: overlap("gates-minilm"),
}
FIGURES = {"gates.png": lambda: figure("gates-minilm")}
CLAIMS = {
    "gates.heads": _most_heads_can_go,
    "gates.learnt": _no_gates_win,
    "gates.dynamic": _dynamic_keeps_fewer,
    "gates.weights": _weights_matter,
    "gates.correlation": _gates_correlate,
    "gates.seeds": _seeds_agree,
    "gates.roles": _one_role,
}
