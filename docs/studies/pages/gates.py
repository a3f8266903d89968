"""Numbers of pruned models."""

import itertools
from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.plots.gates import draw_budgets
from headspec.statistics.resampling import SIGNIFICANCE
from pages.kept import bullets, markdown, points, sides, table

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
#: methods that learn gates, and are compared with importance
LEARNT = ("l0", "l0-target", "subset")
#: studies, and their models
MODELS = {"gates-minilm": "MiniLM", "gates-bge": "bge-small"}
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
                cells.append(points(cell["difference"], cell["ci_low"], cell["ci_high"]))
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


def findings() -> str:
    """What the tables of both models show, and no more."""
    return bullets([most_heads(), learnt(), own_numbers(), fresh(), gates_of_seeds()])


def _compared(study: str, methods: Sequence[str], other: str) -> pd.DataFrame:
    """Differences in accuracy at the numbers of heads that the page shows."""
    found = table(study, "budgets")
    found = found[(found["metric"] == "accuracy") & found["fraction"].isin(SHOWN)]
    return found[found["way"].isin(methods) & (found["against"] == other)]


def most_heads() -> str:
    rows = pd.concat([_compared(study, ["importance"], "whole") for study in MODELS])
    return (
        f"**The most important heads minus the whole model**: {sides(rows)}; the lowest end is a loss of "
        f"{-100 * rows['ci_low'].min():.1f} points."
    )


def learnt() -> str:
    both = {
        "learnt gates": pd.concat([_compared(study, LEARNT, "importance") for study in MODELS]),
        "`random`": pd.concat([_compared(study, ["random"], "importance") for study in MODELS]),
    }
    counts = "; ".join(f"{name}: {sides(rows)}" for name, rows in both.items())
    return f"**Other methods minus `importance`**: {counts}."


def own_numbers() -> str:
    """Dynamic and static gates at the numbers of heads that they leave open."""
    parts = []
    for study, model in MODELS.items():
        found = table(study, "budgets")
        found = found[found["fraction"].isna() & (found["metric"] == "accuracy")].set_index(
            ["task", "way", "against"]
        )
        for task in TASKS:
            row, heads = found.loc[(task, "dynamic", "static")], found.loc[(task, "static", "whole"), "heads"]
            difference = points(row["difference"], row["ci_low"], row["ci_high"])
            parts.append(f"{row['heads']:.0f} and {heads:.0f} heads, {difference} ({model}, {task})")
    return (
        "**He and Choi**: dynamic pruning keeps fewer heads than static, at a higher score. Here, heads that "
        f"`dynamic` and `static` leave open, and the difference in accuracy: {'; '.join(parts)}."
    )


def fresh() -> str:
    rows = _compared("gates-minilm", ["fresh"], "whole")
    least, most = -100 * rows["difference"].max(), -100 * rows["difference"].min()
    return (
        f"**`fresh`** costs MiniLM {least:.1f} to {most:.1f} points. All of its weights are new, so this "
        "is no evidence about the heads."
    )


def gates_of_seeds() -> str:
    """Correlations of seeds' gates, and in how many cells kept heads have more in common than by chance."""
    found = pd.concat([table(study, "overlap").assign(study=study) for study in MODELS])
    found = found[(found["what"] == "seeds") & (found["a"] == "mean")]
    own = found[found["fraction"].isna()].groupby("way")["correlation"].agg(["min", "max"])
    ranges = ", ".join(f"`{way}` {own['min'][way]:.2f} to {own['max'][way]:.2f}" for way in own.index)
    shown = found[found["fraction"].isin(SHOWN) & found["way"].isin(CHOSEN)]
    cells = (shown["p_holm"] < SIGNIFICANCE).groupby(shown["way"]).agg(["sum", "size"])
    counts = ", ".join(f"`{way}` in {cells['sum'][way]} of {cells['size'][way]}" for way in cells.index)
    return (
        f"**He and Choi**: gates of seeds correlate by 0.7 to 0.9. Here: {ranges}. Seeds keep more heads in "
        f"common than by chance within layers (corrected *p* < .05): {counts} comparisons."
    )


def roles() -> str:
    """Roles of which clearly more heads are kept than by chance within layers."""
    found = pd.concat([table(study, "role_counts").assign(name=model) for study, model in MODELS.items()])
    more = found[(found["p_holm"] < SIGNIFICANCE) & (found["kept"] > found["kept_by_layer"])]
    cells = "; ".join(
        f"`{row.way}`, {100 * row.fraction:.0f} % of {row.name_}'s heads, {row.mixture}: {row.kept:.1f} "
        f"{row.role}, {row.kept_by_layer:.1f} by chance"
        for row in more.rename(columns={"name": "name_"}).itertuples()
    )
    return (
        "Tests that find more heads with a [role](methods/gates.md#roles) kept than by chance within layers: "
        f"{len(more)} of {found['p_value'].notna().sum()} ({cells}).\n"
    )


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
    "gates: findings": findings,
    "gates-minilm: overlap": lambda: overlap("gates-minilm"),
    "gates: roles": roles,
}
FIGURES = {"gates.png": lambda: figure("gates-minilm")}
