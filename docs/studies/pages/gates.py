"""Numbers of gates.md."""

import itertools
from collections.abc import Iterator

from matplotlib.figure import Figure

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.plots.gates import draw_budgets
from pages.kept import markdown, points, table

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
            yield [task, f"`{method}` minus `{other}`", *cells]

    return markdown(["task", "heads kept", *(f"{fraction:.0%}" for fraction in fractions)], rows())


def overlap(study: str) -> str:
    """Heads that seeds have in common, beside what their numbers by layer would give."""
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
    return draw_budgets(
        found,
        dict.fromkeys(TASKS, "accuracy"),
        PRUNING_METHODS.labels(names),
        PRUNING_METHODS.places(names),
    )


BLOCKS = {
    "gates-minilm: budgets": lambda: budgets("gates-minilm"),
    "gates-bge: budgets": lambda: budgets("gates-bge"),
    "gates-minilm: overlap": lambda: overlap("gates-minilm"),
}
FIGURES = {"gates.png": lambda: figure("gates-minilm")}
