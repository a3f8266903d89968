"""Numbers of reproduction.md on five tasks and 144 heads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pandas as pd

from headspec.statistics.resampling import holm
from pages.kept import markdown, points, table

TASKS = ("ag", "qnli", "sst2", "mnli", "qqp")
#: measures that are tested alone
EXPECTED = ("head-fisher", "dse")
PAIRS = tuple("+".join(pair) for pair in itertools.combinations(TASKS, 2))


def rows_of(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows with these values."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    return frame


def mark(row: Any) -> str:
    """`†` where a pruned model is at chance."""
    return " †" if row["at_chance"] else ""


def dissociation(study: str) -> str:
    """Mean D of every mixture, tuned and frozen, at the main fraction and over all of them."""
    found, areas = (rows_of(table(study, name), task="mean") for name in ("combined", "areas"))

    def cell(mixture: str, method: str) -> Iterator[str]:
        row = rows_of(found, mixture=mixture, method=method).iloc[0]
        yield points(row["dissociation"], row["ci_low"], row["ci_high"]) + mark(row)
        yield "distinct" if row["distinct"] else row["case"]

    def lines() -> Iterator[list[str]]:
        for mixture in found["mixture"].unique():
            area = rows_of(areas, mixture=mixture, method="tuned").iloc[0]
            every = points(area["area"], area["ci_low"], area["ci_high"])
            yield [mixture, *cell(mixture, "tuned"), every, *cell(mixture, "frozen")]

    return markdown(["mixture", "D, tuned", "", "tuned, all fractions", "D, frozen", ""], lines())


def answers(study: str) -> str:
    """What was found, question by question."""
    combined, contrasts = table(study, "combined"), table(study, "contrasts")
    means = rows_of(combined, task="mean", method="tuned")
    pairs = means[means["mixture"].isin(PAIRS)]
    counts = pairs["case"].value_counts()
    cases = ", ".join(
        f"{counts[case]} {case}" for case in ("double", "single", "inverted", "none") if case in counts
    )
    distinct = int(pairs["distinct"].sum())
    five = rows_of(combined, mixture="five", method="tuned")
    five = five[five["task"] != "mean"].set_index("task").loc[list(TASKS)]
    correlation = rows_of(table(study, "correlation"), model="bge-small").set_index("measure")
    below = int(((correlation["pearson_r"] < 0) & (correlation["p_mantel"] < 0.05)).sum())
    survive = int((pd.Series(holm(correlation["p_mantel"])) < 0.05).sum())

    def contrast(name: str, mixture: str) -> str:
        row = rows_of(contrasts, contrast=name, mixture=mixture, method="tuned").iloc[0]
        difference = points(row["difference"], row["ci_low"], row["ci_high"])
        return f"{difference}, p {row['p_value']:.4f}"

    def lines() -> Iterator[list[str]]:
        yield [
            "how many of ten pairs dissociate",
            f"{cases}; {distinct} distinct; {int(pairs['at_chance'].sum())} †",
        ]
        tuned = rows_of(contrasts, contrast="methods", mixture="pairs").iloc[0]
        mean = f"mean D {100 * tuned['dissociation']:.1f}"
        yield ["does tuning dissociate", f"{mean}, less frozen {contrast('methods', 'pairs')}"]
        yield ["does the paradigm matter", contrast("paradigms", "across paradigms")]
        each = ", ".join(
            f"{task} {points(row['dissociation'], row['ci_low'], row['ci_high'])}{mark(row)}"
            for task, row in five.iterrows()
        )
        yield ["five tasks at once", each]
        alone = ", ".join(
            f"`{name}` r {correlation['pearson_r'][name]:.2f}, p {correlation['p_mantel'][name]:.3f}"
            for name in EXPECTED
        )
        yield [
            "do similar tasks dissociate less",
            f"r < 0 with p < 0.05 by {below} of {len(correlation)} measures, {survive} after Holm; "
            f"alone {alone}",
        ]

    return markdown(["question", "found"], lines())


def models(study: str) -> str:
    """What the models are worth without pruning, how many tasks are at chance, and how far seeds agree."""
    found, agreement = table(study, "dissociation"), rows_of(table(study, "reliability"), kind="seeds")
    bases = found.groupby(["method", "task"])["base"].mean()
    chance = found.groupby(["method", "fraction"])["at_chance"].mean()
    seeds = agreement.groupby("method")[["spearman", "top_overlap"]].mean()

    def lines() -> Iterator[list[str]]:
        for method in ("tuned", "frozen"):
            metrics = [f"{100 * bases[method, task]:.0f}" for task in TASKS]
            shares = [f"{chance[method, fraction]:.0%}" for fraction in (0.1, 0.3)]
            yield [method, *metrics, *shares, *(f"{value:.2f}" for value in seeds.loc[method])]

    head = ["", *TASKS, "at chance, 10 %", "at chance, 30 %", "seeds, importance (r)", "seeds, top heads (J)"]
    return markdown(head, lines())


def similarity(study: str) -> str:
    """Correlation of D with every measure of similarity."""
    found = table(study, "correlation").sort_values("pearson_r")
    cells = [f"{row['pearson_r']:+.2f} ({row['p_mantel']:.3f})" for _, row in found.iterrows()]
    return markdown(list(found["measure"]), iter([cells]))


BLOCKS = {
    "five-tasks: dissociation": lambda: dissociation("five-tasks"),
    "five-tasks: answers": lambda: answers("five-tasks"),
    "five-tasks: models": lambda: models("five-tasks"),
    "five-tasks: similarity": lambda: similarity("five-tasks"),
}
#: the page has none
FIGURES: dict[str, Any] = {}
