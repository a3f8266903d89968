"""The end of a study in plain text: what it found, and where figures and report lie."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from headspec import records, tables

METHODS = ("tuned", "frozen")
#: characters of a name, and of one method's columns; two methods and names fill 100
NAME, BLOCK = 27, 35
FLOOR = "†"
#: the row of a mixture that holds the mean over its tasks
MEAN = "mean"
#: fractions that have a column, at most
SHOWN = 5

NOTES = f"""\
D          dissociation: how much more a task loses, as part of its unpruned metric, when its own
           heads are pruned than when the other tasks' are; mean over seeds
{{interval}}
p          permutation test whether it matters whose heads are pruned, Holm-corrected over the study
{FLOOR}          a pruned model is no better than chance at this task, so D means little
case       double: every task clearly above 0; single: some task, all tested together; inverted:
           none above 0, some clearly below
distinct   a double dissociation whose mean reaches the threshold of the config"""


BY_FRACTION = f"""\
all        mean over all parts of the heads from 0 to the largest: the area between the curves of
           relative performance, other tasks' heads pruned and the task's own
{FLOOR}          a pruned model is no better than chance at some task, so D means little"""


CORRELATED = """\
r          Pearson correlation of a pair's mean dissociation with how alike its tasks are
p          Mantel test: the same under other names of the tasks; with three tasks at least 1/6; not
           corrected for the number of measures"""


IMPROVED = """\
MTL        plain multi-task training; % and differences are of means over tasks and their metrics
diff.      to MTL, or to MTL with the same sampling of tasks
{interval}
p          permutation test whether these models differ on other examples, Holm-corrected over the
           methods; it says nothing of other seeds"""


SPECIALIZED = f"""\
D          of the heads that matter in each model, scored anew after IAT; means over seeds
diff.      after less before, of the same seeds and examples
{{interval}}
{FLOOR}          before or after, a pruned model is no better than chance, so D means little"""


def text(
    combined: pd.DataFrame,
    results: Path,
    fractions: pd.DataFrame | None = None,
    areas: pd.DataFrame | None = None,
    correlation: pd.DataFrame | None = None,
    improvement: pd.DataFrame | None = None,
    specialization: pd.DataFrame | None = None,
) -> str:
    """The dissociation table, and those that a study may also have; at most 100 characters wide.

    Parameters
    ----------
    combined : table 'combined'
    results : folder of the study's results
    fractions, areas, correlation, improvement, specialization : tables of these names, where the study
        has them
    """
    lines = ["Dissociation when each task's most important heads are pruned"]
    for model, part in combined.groupby("model"):
        methods = [method for method in METHODS if method in set(part["method"])]
        lines += ["", _line(str(model), [f"{method:^{BLOCK - 2}}" for method in methods])]
        lines.append(_line("mixture, task", [f"{'D %':>6}  {'[  low,   high]'}  {'p':>6}" for _ in methods]))
        for mixture, rows in part.groupby("mixture"):
            blocks = [rows[rows["method"] == method].set_index("task") for method in methods]
            tasks = sorted(rows["task"].unique(), key=lambda task: (task == "mean", task))
            lines.append(str(mixture))
            lines += [_line(f"  {task}", [_numbers(block, task) for block in blocks]) for task in tasks]
            lines.append(_line("  case", [f"  {_case(block)}" for block in blocks]))
    places = {"figures": results / "figures", "report": results / "report.html", "tables": results / "tables"}
    ends = [*lines, "", NOTES.format(interval=_interval(combined))]
    ends += [] if fractions is None or areas is None else _by_fraction(fractions, areas, combined)
    ends += [] if correlation is None else _correlations(correlation)
    ends += [] if improvement is None else _improvements(improvement)
    ends += [] if specialization is None else _specializations(specialization)
    return "\n".join([*ends, "", *(f"{name:<10} {path}" for name, path in places.items())])


def _by_fraction(fractions: pd.DataFrame, areas: pd.DataFrame, combined: pd.DataFrame) -> list[str]:
    """A line for every mixture: the mean over its tasks at the main fraction and others, and over all."""
    lines = ["", "", "Dissociation by how many heads are pruned, mean over tasks"]
    means, areas = fractions[fractions["task"] == MEAN], areas[areas["task"] == MEAN]
    every = sorted(means["fraction"].unique())
    if len(every) < 2:
        return []
    columns = sorted({*every[:: math.ceil(len(every) / (SHOWN - 1))], *combined["fraction"].unique()})
    cells = [*(f"{f'{100 * fraction:.3g} %':>7}" for fraction in columns), f"{'all':>7}  [  low,   high]"]
    order: dict[Any, int] = {method: i for i, method in enumerate(METHODS)}
    for (model, method), part in sorted(
        means.groupby(["model", "method"]), key=lambda group: (group[0][0], order.get(group[0][1], 2))
    ):
        lines += ["", _line(f"{model}, {method}", cells, 8)]
        for mixture, rows in part.groupby("mixture"):
            at = rows.set_index("fraction")
            values = [
                f"{100 * at.loc[f, 'dissociation']:7.1f}{FLOOR if at.loc[f, 'floor'] else ''}"
                for f in columns
            ]
            own = (areas["model"] == model) & (areas["method"] == method) & (areas["mixture"] == mixture)
            (row,) = areas[own].to_dict("records")
            values.append(f"{100 * row['area']:7.1f}  {_range(pd.Series(row), 'ci_low', 'ci_high')}")
            lines.append(_line(f"  {mixture}", values, 8))
    return [*lines, "", BY_FRACTION]


def _interval(frame: pd.DataFrame) -> str:
    """The note on the intervals of `frame`: what they are over."""
    over = " or ".join(sorted(frame["ci_over"].dropna().unique()))
    alone = " alone: one or two seeds do not show how others vary" if over == "examples" else ""
    return f"[ ]        interval over {over}{alone}"


def _correlations(correlation: pd.DataFrame) -> list[str]:
    """A line for every measure of similarity, with r and p of each model."""
    lines = ["", "", "Dissociation against similarity, over pairs of tasks", ""]
    by_measure = dict(list(correlation.groupby("measure")))
    models = list(dict.fromkeys(correlation["model"]))
    for i in range(0, len(models), 4):
        here = models[i : i + 4]
        lines.append(_line("", [f"{model[:16]:>16}" for model in here], 16))
        lines.append(_line("measure", [f"{'r':>7}  {'p':>6}" for _ in here], 16))
        for measure, rows in by_measure.items():
            row = rows.set_index("model")
            lines.append(_line(str(measure), [_r_and_p(row.loc[model]) for model in here], 16))
    return [*lines, "", CORRELATED]


def _improvements(improvement: pd.DataFrame) -> list[str]:
    """A line for every method of every mixture, with its mean over tasks."""
    lines = ["", "", "IAT and what it is set beside against multi-task training (MTL), mean over tasks"]
    means = improvement[improvement["task"] == MEAN]
    cells = [f"{'%':>6}", f"{'diff.':>6}  {'[  low,   high]'}  {'p':>6}"]
    for (model, mixture), part in means.groupby(["model", "mixture"]):
        lines += ["", f"{model}, {mixture}", _line("  method", cells, 6)]
        base = part["against"].isna()
        for _, row in pd.concat([part[base], part[~base]]).iterrows():
            name = "MTL" if row["method"] == "tuned" else str(row["method"])
            values = [f"{100 * row['value']:6.1f}"]
            if pd.notna(row["against"]):
                values.append(f"{_difference(row)}  {_p(row['p_holm']):>6}")
            lines.append(_line(f"  {name}", values, 6))
    return [*lines, "", IMPROVED.format(interval=_interval(means))]


def _specializations(specialization: pd.DataFrame) -> list[str]:
    """A line for every task of every mixture, the mean last."""
    lines = ["", "", "Dissociation before and after IAT"]
    cells = ["bef. %", "aft. %", f"{'diff.':>6}  {'[  low,   high]'}"]
    for (model, mixture), part in specialization.groupby(["model", "mixture"]):
        lines += ["", f"{model}, {mixture}", _line("  task", cells, 6)]
        for _, row in part.sort_values("task", key=lambda task: task == MEAN, kind="stable").iterrows():
            values = [f"{100 * row[name]:6.1f}" for name in ("before", "after")]
            values += [_difference(row), FLOOR if row["floor"] else ""]
            lines.append(_line(f"  {row['task']}", values, 6))
    return [*lines, "", SPECIALIZED.format(interval=_interval(specialization))]


def _difference(row: pd.Series) -> str:
    """``   0.8  [ -0.1,    1.7]``"""
    return f"{100 * row['difference']:6.1f}  {_range(row, 'ci_low', 'ci_high')}"


def _range(row: pd.Series, low: str, high: str) -> str:
    return f"[{100 * row[low]:5.1f}, {100 * row[high]:6.1f}]" if pd.notna(row[low]) else ""


def _r_and_p(row: pd.Series) -> str:
    return f"{row['pearson_r']:7.2f}  {_p(row['p_mantel']):>6}" if pd.notna(row["pearson_r"]) else ""


def _p(value: Any) -> str:
    return "" if pd.isna(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def _line(name: str, cells: list[str], width: int = BLOCK) -> str:
    if len(name) > NAME:
        name = name[: NAME - 1] + "…"
    return "".join([f"{name:<{NAME}}", *(f" {cell:<{width}}" for cell in cells)]).rstrip()


def _numbers(block: pd.DataFrame, task: str) -> str:
    """``  12.7  [ 10.1,   15.3]  <0.001  †``, or nothing where the method has no such row."""
    if task not in block.index:
        return ""
    row = block.loc[task]
    d, low, high = (100 * row[column] for column in ("dissociation", "ci_low", "ci_high"))
    return f"{d:6.1f}  [{low:5.1f}, {high:6.1f}]  {_p(row['p_holm']):>6}  {FLOOR if row['floor'] else ''}"


def _case(block: pd.DataFrame) -> str:
    if block.empty:
        return ""
    row = block.loc["mean"]
    return f"{row['case']}, distinct" if row["distinct"] else str(row["case"])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    paths = {
        name: folder / "tables" / f"{name}.parquet"
        for name in ("fractions", "areas", "correlation", "improvement", "specialization")
    }
    found = {name: tables.read(path) for name, path in paths.items() if path.exists()}
    print(text(tables.read(folder / "tables" / "combined.parquet"), folder, **found))
    outdated = records.outdated(folder)
    if outdated:
        print(f"\n{outdated}")
