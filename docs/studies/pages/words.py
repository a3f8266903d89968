"""Numbers of words.md."""

import itertools
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.probes import sharing as sharing_plot
from pages.kept import markdown, points, rounded, rows_of, sides, table

STUDY = "stemcell-minilm"
#: tasks of the study of words, and the metric by which each is judged
WORDS = {"pos": "word_accuracy", "ner": "span_f1", "dep": "las", "con": "bracket_f1", "srl": "role_f1"}
#: what heads know: a group of runs, and the one that it is compared with; None is a task's own run alone
CHANGES = [
    ((None, "single"), "pretrained", "alone less pretrained"),
    (("five", "tuned"), "pretrained", "all five less pretrained"),
    (("five", "tuned"), "single", "all five less alone"),
    (("five", "even"), "tuned", "`even` less all five"),
    (("five", "iat"), "tuned", "`iat` less all five"),
]

#: pruning methods whose gates learn without a target number of heads
METHODS = ("static", "dynamic")


def sharing(study: str) -> str:
    """What every task gains or loses beside each other task, and beside all."""
    found = table(study, "sharing")

    def cell(task: str, mixture: str, method: str) -> str:
        where = (found["mixture"] == mixture) & (found["method"] == method)
        row = found[where & (found["task"] == task) & (found["metric"] == WORDS[task])].iloc[0]
        mark = " *" if row["p_holm"] < 0.05 else ""
        return points(row["difference"], row["ci_low"], row["ci_high"]) + mark

    def rows() -> Iterator[list[str]]:
        for task in WORDS:
            alone = found[(found["mixture"] == task) & (found["metric"] == WORDS[task])]["value"].item()
            pairs = {other: pair(task, other) for other in WORDS if other != task}
            beside = [cell(task, pairs[other], "tuned") if other in pairs else "" for other in WORDS]
            together = [cell(task, "five", method) for method in ("tuned", "even", "iat")]
            yield [task, f"{100 * alone:.1f}", *beside, *together]

    names = set(found["mixture"])

    def pair(a: str, b: str) -> str:
        return next(name for name in (f"{a}+{b}", f"{b}+{a}") if name in names)

    return markdown(["task", "alone", *(f"with {o}" for o in WORDS), "all five", "`even`", "`iat`"], rows())


def probes(study: str) -> str:
    """What the best heads know of the labels, and how much of it their controls do not."""
    found = table(study, "probes")
    found = found[found["label"].isna() & (found["heads"] == "best")]
    groups = [("none", "random"), ("none", "pretrained"), (None, "single"), ("five", "tuned")]

    def rows() -> Iterator[list[str]]:
        for task in WORDS:
            of_task = found[found["task"] == task].set_index(["mixture", "method"])
            cells = [of_task.loc[(mixture or task, method)] for mixture, method in groups]
            yield [task, *(f"{100 * c['accuracy']:.1f} ({100 * c['selectivity']:+.1f})" for c in cells)]

    return markdown(["task", "random weights", "pretrained", "alone", "all five"], rows())


def gates(study: str) -> str:
    """The heads that static and dynamic gates keep, alone and together, and what they cost."""
    found, overlaps = (table(study, name) for name in ("budgets", "overlap"))
    found, overlaps = (frame[frame["fraction"].isna()] for frame in (found, overlaps))  # no target
    overlaps = overlaps[(overlaps["what"] == "tasks") & (overlaps["within"] == "mean")]

    def cell(task: str, mixture: str, method: str) -> str:
        where = (found["mixture"] == mixture) & (found["way"] == method) & (found["against"] == "whole")
        row = found[where & (found["task"] == task) & (found["metric"] == WORDS[task])].iloc[0]
        return f"{row['heads']:.0f}: {points(row['difference'], row['ci_low'], row['ci_high'])}"

    def rows() -> Iterator[list[str]]:
        for task, mixture in itertools.chain(
            zip(WORDS, WORDS, strict=True), ((task, "five") for task in WORDS)
        ):
            cells = [cell(task, mixture, method) for method in METHODS]
            yield [task, "alone" if task == mixture else "all five", *cells]
        cells = []
        for method in METHODS:
            row = overlaps[overlaps["way"] == method].iloc[0]
            mark = " *" if row["p_holm"] < 0.05 else ""
            cells.append(f"{row['jaccard']:.2f} ({row['jaccard_by_layer']:.2f}){mark}")
        yield ["in common", "alone", *cells]

    return markdown(["task", "trained", *(f"`{method}`" for method in METHODS)], rows())


def changes(study: str) -> str:
    """What the heads that knew most before training know after it."""
    found = table(study, "probe_changes")
    found = found[found["label"].isna() & (found["heads"] == "best")]

    def rows() -> Iterator[list[str]]:
        for task in WORDS:
            of_task = found[found["task"] == task].set_index(["mixture", "method", "before"])
            cells = []
            for (mixture, method), before, _ in CHANGES:
                row = of_task.loc[(mixture or task, method, before)]
                cells.append(points(row["change"], row["ci_low"], row["ci_high"]))
            yield [task, *cells]

    return markdown(["task", *(name for _, _, name in CHANGES)], rows())


def figure(study: str) -> Figure:
    """Every task alone, in pairs and all together."""
    found = table(study, "sharing")
    return sharing_plot.draw(found[found["model"] == "minilm"], WORDS)


def _together(task: str, mixture: str, method: str = "tuned", metric: str | None = None) -> pd.DataFrame:
    """What a task gains in a mixture; None stands for its main metric."""
    found = table(STUDY, "sharing")
    return rows_of(found, task=task, mixture=mixture, method=method, metric=metric or WORDS.get(task, "mean"))


def _pairs_differ() -> bool:
    """Roles gain beside dependencies, which lose; after correction two losses are left and no gain."""
    found = table(STUDY, "sharing")
    found = found[found["mixture"].str.count(r"\+").eq(1) & found["difference"].notna()]
    main = found[found["metric"].eq(found["task"].map(WORDS))]
    split = [mixture for mixture, rows in main.groupby("mixture") if sides(rows) >= {-1, 1}]
    clear = found[found["p_holm"] < 0.05]
    left = {("ner+dep", "dep", "uas"), ("pos+con", "mean", "mean")}
    roles, heads = (sides(_together(task, "dep+srl")) for task in ("srl", "dep"))
    return (
        (split, roles, heads) == (["dep+srl"], {1}, {-1})
        and {*clear[["mixture", "task", "metric"]].itertuples(index=False, name=None)} == left
        and sides(clear) == {-1}
    )


def _all_five_lose() -> bool:
    """All five together lose against alone only in dependencies, not after correction."""
    own = {task: _together(task, "five") for task in WORDS}
    apart = {task: sides(rows) for task, rows in own.items() if sides(rows) != {0}}
    return apart == {"dep": {-1}} and own["dep"]["p_holm"].item() >= 0.05


def _gates_overlap() -> bool:
    """Gates of tasks overlap more than within layers; dynamic ones keep at most 10 heads, together none."""
    overlaps = rows_of(table(STUDY, "overlap"), what="tasks", within="mean", fraction=None)
    found = rows_of(table(STUDY, "budgets"), way="dynamic", fraction=None, against="whole")
    together, alone = found["mixture"] == "five", found["mixture"].isin(list(WORDS))
    return (
        set(overlaps["way"]) == set(METHODS)
        and bool((overlaps["p_holm"] < 0.05).all())
        and bool((overlaps["jaccard"] > overlaps["jaccard_by_layer"]).all())
        and (found["heads"][together].max(), round(found["heads"][alone].max())) == (0, 10)
    )


def _heads_forget() -> bool:
    """In joint training the best heads of three tasks lose what they know, and those of no task gain."""
    found = rows_of(table(STUDY, "probe_changes"), label=None, heads="best", before="pretrained")
    found = rows_of(found, mixture="five", method="tuned").set_index("task").loc[list(WORDS)]
    lost = {task: rounded(found["change"][task]) for task in WORDS if sides(found.loc[[task]]) == {-1}}
    known = rows_of(table(STUDY, "probes"), label=None, heads="best", task="pos")
    before, after = (
        rows_of(known, method=m, mixture=x) for m, x in (("pretrained", "none"), ("tuned", "five"))
    )
    return (
        lost == {"pos": -9, "con": -2, "srl": -3}
        and 1 not in sides(found)
        and after["accuracy_low"].item() > before["accuracy_high"].item()
    )


def _remedies_fail() -> bool:
    """With both remedies dependencies lose against alone, after correction; no task gains."""
    found = pd.concat([_together(task, "five", way) for task in WORDS for way in ("even", "iat")])
    dep = found[found["task"] == "dep"]
    return sides(dep) == {-1} and bool((dep["p_holm"] < 0.05).all()) and 1 not in sides(found)


def _reach() -> bool:
    """Intervals of gains reach 0.3 to 6.8 points to either side."""
    found = table(STUDY, "sharing")
    found = found[found["metric"].eq(found["task"].map(WORDS)) & found["difference"].notna()]
    reach = (found["ci_high"] - found["ci_low"]) / 2
    return (rounded(reach.min(), 1), rounded(reach.max(), 1)) == (0.3, 6.8)


BLOCKS = {
    f"{STUDY}: {fill.__name__}": lambda fill=fill: fill(STUDY) for fill in (sharing, probes, changes, gates)
}
FIGURES = {"words.png": lambda: figure(STUDY)}
CLAIMS = {
    "words.pairs": _pairs_differ,
    "words.all-five": _all_five_lose,
    "words.gates": _gates_overlap,
    "words.forgotten": _heads_forget,
    "words.remedies": _remedies_fail,
    "words.reach": _reach,
}
