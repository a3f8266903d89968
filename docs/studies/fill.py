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


BLOCKS: dict[str, Callable[[], str]] = {
    "gates-minilm: budgets": lambda: gates_budgets("gates-minilm"),
    "gates-bge: budgets": lambda: gates_budgets("gates-bge"),
    "gates-minilm: overlap": lambda: gates_overlap("gates-minilm"),
}
FIGURES: dict[str, Callable[[], Figure]] = {"gates.png": lambda: gates_figure("gates-minilm")}


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(Path(sys.argv[1]), sys.argv[2:])
    for path in sorted(DOCS.glob("*.md")):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name, figure in FIGURES.items():
        figure().savefig(DOCS / name, dpi=200)
