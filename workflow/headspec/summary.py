"""The end of a study in plain text: what it found, and where figures and report lie."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from headspec import tables

METHODS = ("tuned", "frozen")
#: characters of a name, and of one method's columns; two methods and names fill 100
NAME, BLOCK = 27, 35
FLOOR = "†"

NOTES = f"""\
D          dissociation: how much more a task loses, as part of its unpruned metric, when its own
           heads are pruned than when the other tasks' are; mean over seeds, bootstrap interval
p          permutation test whether it matters whose heads are pruned, Holm-corrected over the study
{FLOOR}          a pruned model is no better than chance at this task, so D means little
case       double: every task clearly above 0; single: some; inverted: none above 0, some below
distinct   a double dissociation whose mean reaches the threshold of the config"""


CORRELATED = """\
r          Pearson correlation of a pair's mean dissociation with how alike its tasks are
p          Mantel test: the same under other names of the tasks; with three tasks at least 1/6; not
           corrected for the number of measures"""


def text(combined: pd.DataFrame, results: Path, correlation: pd.DataFrame | None = None) -> str:
    """The dissociation table, and that of its correlation with similarity; at most 100 characters wide.

    Parameters
    ----------
    combined : table 'combined'
    results : folder of the study's results
    correlation : table 'correlation', where the study has one
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
    ends = [*lines, "", NOTES, *([] if correlation is None else _correlations(correlation))]
    return "\n".join([*ends, "", *(f"{name:<10} {path}" for name, path in places.items())])


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
    correlated = folder / "tables" / "correlation.parquet"
    found = tables.read(correlated) if correlated.exists() else None
    print(text(tables.read(folder / "tables" / "combined.parquet"), folder, found))
