"""Fill the pages with the numbers of the studies that are kept here, and draw their figures.

A folder here is a study that was run: its config, and small tables of its results. In a page, the lines
between `<!-- gates-minilm: budgets -->` and `<!-- end -->` are what the function of that name below makes of
the tables. `make docs` brings pages and figures up to date. To keep tables of another study:

    python docs/studies/fill.py results/gates-minilm budgets overlap
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from headspec import tables
from headspec.config import ways
from headspec.pipeline import outputs
from headspec.plots.gates import budgets as budgets_plot
from headspec.plots.probes import sharing as sharing_plot

STUDIES = Path(__file__).parent
DOCS = STUDIES.parent
BLOCK = re.compile(r"<!-- (?P<name>[\w-]+: [\w-]+) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)


def keep(results: Path, names: Sequence[str]) -> None:
    """Copy tables of a study; in the place of what they were made from they have its digest."""
    for name in names:
        path = results.resolve() / "tables" / f"{name}.parquet"
        footer = tables.footer(path)
        made_from = hashlib.sha256(json.dumps(footer.pop("job"), sort_keys=True).encode()).hexdigest()
        to = STUDIES / results.name / "tables" / path.name
        to.parent.mkdir(parents=True, exist_ok=True)
        tables.write(to, outputs.schemas()[name], tables.read(path), footer | {"made_from": made_from})


def table(study: str, name: str) -> pd.DataFrame:
    """A kept table of a study."""
    return tables.read(STUDIES / study / "tables" / f"{name}.parquet")


def markdown(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def points(value: float, low: float, high: float) -> str:
    """A difference in points, with its interval."""
    return f"{100 * value:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def filled(page: str) -> str:
    """A page with what its blocks say now."""
    return BLOCK.sub(lambda b: f"<!-- {b['name']} -->\n{BLOCKS[b['name']]()}<!-- end -->", page)


# Gates

#: tasks of the study of gates, and its two models
TASKS = ("qnli", "sst2")
#: way, and the one that it is compared with
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
#: ways whose kept heads are compared
CHOSEN = ("importance", "l0", "subset", "dynamic")


def gates_budgets(study: str) -> str:
    """Differences between ways by the number of heads kept."""
    found = table(study, "budgets")
    found = found[(found["metric"] == "accuracy") & found["fraction"].between(0, 1, inclusive="left")]
    fractions = sorted(found["fraction"].unique())
    known = set(found["way"]) | set(found["against"])

    def rows() -> Iterator[list[str]]:
        for task, (way, other) in itertools.product(TASKS, COMPARED):
            if not {way, other} <= known:
                continue
            of_task = found[(found["task"] == task) & (found["way"] == way) & (found["against"] == other)]
            by_fraction = of_task.set_index("fraction").to_dict("index")
            cells = []
            for fraction in fractions:
                cell = by_fraction[fraction]
                mark = " *" if cell["p_holm"] < 0.05 else ""
                cells.append(points(cell["difference"], cell["ci_low"], cell["ci_high"]) + mark)
            yield [task, f"`{way}` less `{other}`", *cells]

    return markdown(["task", "heads kept", *(f"{fraction:.0%}" for fraction in fractions)], rows())


def gates_overlap(study: str) -> str:
    """What seeds keep alike, beside what their numbers by layer would give."""
    found = table(study, "overlap")
    found = found[(found["what"] == "seeds") & (found["a"] == "mean") & found["fraction"].notna()]
    fractions = sorted(found["fraction"].unique())

    def rows() -> Iterator[list[str]]:
        for task, way in itertools.product(TASKS, CHOSEN):
            group = found[(found["mixture"] == task) & (found["way"] == way)]
            of_way = group.set_index("fraction").to_dict("index")
            cells = []
            for fraction in fractions:
                cell = of_way[fraction]
                mark = " *" if cell["p_holm"] < 0.05 else ""
                cells.append(f"{cell['jaccard']:.2f} ({cell['jaccard_by_layer']:.2f}){mark}")
            yield [task, f"`{way}`", *cells]

    return markdown(["task", "heads kept", *(f"{fraction:.0%}" for fraction in fractions)], rows())


def gates_figure(study: str) -> Figure:
    """The metric by heads kept, a panel for each task."""
    found = table(study, "budgets")
    names = list(dict.fromkeys(way for pair in COMPARED for way in pair if way in set(found["way"])))
    found = found[found["way"].isin(names)]
    return budgets_plot.draw(found, dict.fromkeys(TASKS, "accuracy"), ways.labels(names), ways.places(names))


# Tasks on words

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


def words_sharing(study: str) -> str:
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


def words_probes(study: str) -> str:
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


def words_gates(study: str) -> str:
    """The heads that static and dynamic gates keep, alone and together, and what they cost."""
    found = table(study, "budgets")
    overlaps = table(study, "overlap")
    overlaps = overlaps[(overlaps["what"] == "tasks") & (overlaps["within"] == "mean")]

    def cell(task: str, mixture: str, way: str, fraction: bool) -> str:
        where = (found["mixture"] == mixture) & (found["way"] == way) & (found["against"] == "whole")
        where &= found["fraction"].notna() if fraction else found["fraction"].isna()
        row = found[where & (found["task"] == task) & (found["metric"] == WORDS[task])].iloc[0]
        return f"{row['heads']:.0f}: {points(row['difference'], row['ci_low'], row['ci_high'])}"

    def rows() -> Iterator[list[str]]:
        for task, mixture in itertools.chain(
            zip(WORDS, WORDS, strict=True), ((task, "five") for task in WORDS)
        ):
            cells = [cell(task, mixture, way, at) for at in (False, True) for way in ("static", "dynamic")]
            yield [task, "alone" if task == mixture else "all five", *cells]
        cells = []
        for fraction, way in itertools.product((False, True), ("static", "dynamic")):
            at = overlaps["fraction"].notna() if fraction else overlaps["fraction"].isna()
            row = overlaps[at & (overlaps["way"] == way)].iloc[0]
            mark = " *" if row["p_holm"] < 0.05 else ""
            cells.append(f"{row['jaccard']:.2f} ({row['jaccard_by_layer']:.2f}){mark}")
        yield ["in common", "alone", *cells]

    head = ["task", "trained", "`static`", "`dynamic`", "`static`, 30 %", "`dynamic`, 30 %"]
    return markdown(head, rows())


def words_changes(study: str) -> str:
    """What the heads that knew most before training know after it."""
    found = table(study, "probe_changes")
    found = found[found["label"].isna() & (found["heads"] == "best")]

    def rows() -> Iterator[list[str]]:
        for task in WORDS:
            of_task = found[found["task"] == task].set_index(["mixture", "method", "before"])
            cells = []
            for (mixture, method), before, _ in CHANGES:
                row = of_task.loc[(mixture or task, method, before)]
                mark = " *" if row["p_holm"] < 0.05 else ""
                cells.append(points(row["change"], row["ci_low"], row["ci_high"]) + mark)
            yield [task, *cells]

    return markdown(["task", *(name for _, _, name in CHANGES)], rows())


def words_figure(study: str) -> Figure:
    """Every task alone, in pairs and all together."""
    found = table(study, "sharing")
    return sharing_plot.draw(found[found["model"] == "minilm"], WORDS)


BLOCKS: dict[str, Callable[[], str]] = {
    "gates-minilm: budgets": lambda: gates_budgets("gates-minilm"),
    "gates-bge: budgets": lambda: gates_budgets("gates-bge"),
    "gates-minilm: overlap": lambda: gates_overlap("gates-minilm"),
    "stemcell-minilm: sharing": lambda: words_sharing("stemcell-minilm"),
    "stemcell-minilm: probes": lambda: words_probes("stemcell-minilm"),
    "stemcell-minilm: changes": lambda: words_changes("stemcell-minilm"),
    "stemcell-minilm: gates": lambda: words_gates("stemcell-minilm"),
}
FIGURES: dict[str, Callable[[], Figure]] = {
    "gates.png": lambda: gates_figure("gates-minilm"),
    "words.png": lambda: words_figure("stemcell-minilm"),
}


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(Path(sys.argv[1]), sys.argv[2:])
    for path in sorted(DOCS.glob("*.md")):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name, figure in FIGURES.items():
        figure().savefig(DOCS / name, dpi=200)
