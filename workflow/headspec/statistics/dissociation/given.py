"""Pruning matrices that a user gives as a frame, checked row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import Run
from headspec.config.values import NONE, RANDOM
from headspec.errors import listing, nearest, shown

Floats = NDArray[np.float64]

#: columns that identify a model's runs, one of which may be missing
SIZES = ("heads", "fraction")
CELL = ["model", "seed", "pruned_for", "draw", "size", "task"]


@dataclass(frozen=True)
class Given:
    """The matrices of one model: S seeds, F sizes, k tasks.

    `cells` has a row for each combination of `CELL`, with `value`, and with `right` and `n` if answers are
    counted; `rows` has one for each example too, or is None if examples have no names.
    """

    tasks: tuple[str, ...]
    runs: tuple[Run, ...]  # (S,)
    sizes: tuple[float, ...]  # (F,), increasing
    cells: pd.DataFrame
    rows: pd.DataFrame | None

    @property
    def counted(self) -> bool:
        """Whether numbers of answers are known."""
        return "n" in self.cells

    @property
    def unpaired(self) -> bool:
        """Whether answers are counted, but examples are not known."""
        return self.counted and self.rows is None

    @property
    def controls(self) -> dict[str, list[float]]:
        """Lists of heads that belong to no task, with the draws of each."""
        others = self.cells[~self.cells["pruned_for"].isin([NONE, *self.tasks])]
        return {str(name): sorted(part["draw"].unique()) for name, part in others.groupby("pruned_for")}

    def unpruned(self, column: str = "value") -> Floats:
        """Return values (S, k) without pruning."""
        return self._values(column, [NONE], [0.0], [0.0])[:, 0, 0, 0]

    def pruned(self, column: str = "value") -> Floats:
        """Return values (S, F, k, k) with the heads of a task (third axis) pruned, of the evaluated task."""
        return self._values(column, self.tasks, [0.0], self.sizes)[:, :, :, 0]

    def control(self, name: str) -> Floats:
        """Return values (S, F, draws, k) with a list of no task pruned."""
        return self._values("value", [name], self.controls[name], self.sizes)[:, :, 0]

    def n(self) -> NDArray[np.int64]:
        """Return the numbers of answers, (k,)."""
        by_task = self.cells.groupby("task")["n"].first()
        return np.array([by_task[task] for task in self.tasks], dtype=np.int64)

    def _values(self, column: str, lists: Any, draws: Any, sizes: Any) -> Floats:
        """Return values (S, F, lists, draws, k); nan where there is no cell."""
        axes = [[run.seed for run in self.runs], sizes, lists, draws, self.tasks]
        index = pd.MultiIndex.from_product(axes)
        by_cell = self.cells.set_index(["seed", "size", "pruned_for", "draw", "task"])[column]
        values: Floats = by_cell.reindex(index).to_numpy(dtype=float).reshape([len(axis) for axis in axes])
        return values


def given(matrix: pd.DataFrame) -> list[Given]:
    """Return the matrices of every model of a frame.

    Raises ValueError, which names the row or what is missing, if they do not fit.
    """
    rows = _columns(matrix)
    paired = "example" in rows
    _check_values(rows)
    keys = [*CELL, "example"] if paired else CELL
    single = "n" in rows or "right" not in rows or paired
    if single and (twice := rows.duplicated(keys)).any():
        _refuse(rows, twice, "repeats the model, seed, heads and task of a row above it")
    return [_of_model(str(name), part, paired) for name, part in rows.groupby("model", sort=False)]


def keyed(matrix: pd.DataFrame, table: pd.DataFrame, columns: list[str], model: bool = True) -> pd.DataFrame:
    """Return `columns` of a result, after its model (if wanted) and size if `matrix` has these columns."""
    sizes = [name for name in SIZES if name in matrix][:1]
    keys = (["model"] if model and "model" in matrix else []) + sizes
    return table.rename(columns={"size": sizes[0]} if sizes else {})[[*keys, *columns]]


def _columns(matrix: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that are read, under their names in `CELL`, with defaults for optional columns.

    Raises ValueError if others are missing, or values are empty or no numbers.
    """
    if not isinstance(matrix, pd.DataFrame):
        raise ValueError(f"matrix: got {type(matrix).__name__}, expected a DataFrame")
    missing = [name for name in ("pruned_for", "task") if name not in matrix]
    missing += [] if {"right", "value"} & {*matrix} else ["right"]
    if missing:
        names = list(map(str, matrix.columns))
        raise ValueError(
            f"matrix: no column {missing[0]!r}, expected pruned_for, task, and right with n, right of every "
            f"example, or value; there are {listing(names)}.{nearest(missing[0], names)}"
        )
    if {"right", "value"} <= {*matrix} or ("n" in matrix and "right" not in matrix):
        raise ValueError(
            "matrix: expected the column value, or else right with n or with a row for every example"
        )
    if not len(matrix):
        raise ValueError("matrix: no rows")
    size = next((name for name in SIZES if name in matrix), None)
    read = ["pruned_for", "task", *({"right", "n", "value", "model", "seed", "draw", "example"} & {*matrix})]
    rows = matrix[read].assign(size=1.0 if size is None else matrix[size])
    rows = rows.assign(
        **{name: "" if name == "model" else 0 for name in ("model", "seed", "draw") if name not in rows}
    )
    unpruned = rows["pruned_for"].eq(NONE)
    rows["size"] = rows["size"].mask(unpruned, 0)
    rows["draw"] = rows["draw"].where(rows["pruned_for"].eq(RANDOM) | rows["draw"].notna(), 0)
    for name in rows.columns:
        if (empty := rows[name].isna()).any():
            _refuse(rows, empty, f"has no {(size or name) if name == 'size' else name}")
    for name in ("right", "n", "value", "size", "draw", "seed"):
        if name in rows:
            numbers = pd.to_numeric(rows[name], errors="coerce").astype(float)
            if (bad := ~np.isfinite(numbers)).any():
                _refuse(rows, bad, f"has {name} {shown(rows[name][bad].iloc[0])}, expected a number")
            rows[name] = numbers
    return rows.astype({"pruned_for": str, "task": str, "model": str})


def _check_values(rows: pd.DataFrame) -> None:
    """Raise ValueError for the first row with impossible numbers."""
    if (bad := (rows["size"] <= 0) & (rows["pruned_for"] != NONE)).any():
        _refuse(rows, bad, "prunes no heads; unpruned rows have pruned_for 'none'")
    if "right" not in rows:
        return
    right = rows["right"]
    if "n" in rows:
        n = rows["n"]
        if (bad := (n < 1) | (n % 1 != 0)).any():
            _refuse(rows, bad, f"has n {n[bad].iloc[0]:g}, expected a whole number of answers")
        if (bad := (right > n) | (right < 0) | (right % 1 != 0)).any():
            said = f"has right {right[bad].iloc[0]:g} of n {n[bad].iloc[0]:g}"
            _refuse(rows, bad, f"{said}, expected a whole number from 0 to n")
    elif "example" in rows and (bad := (right > 1) | (right < 0)).any():
        _refuse(rows, bad, f"has right {right[bad].iloc[0]:g}, expected 0 to 1; for counts add the column n")
    elif "example" not in rows and (bad := ~right.isin([0, 1])).any():
        said = f"has right {right[bad].iloc[0]:g}, expected 0 or 1"
        _refuse(rows, bad, f"{said}; for counts add the column n, for parts of a point the column example")


def _refuse(rows: pd.DataFrame, bad: Any, said: str) -> None:
    raise ValueError(f"matrix: row {rows.index.tolist()[int(np.flatnonzero(bad)[0])]!r} {said}")


def _of_model(model: str, rows: pd.DataFrame, paired: bool) -> Given:
    """Return the matrices of one model.

    Raises ValueError if tasks or cells are missing, or numbers of answers or examples differ.
    """
    tasks = tuple(dict.fromkeys(rows["task"]))
    where = f"matrix: model {model!r}" if model else "matrix"
    if len(tasks) < 2:
        raise ValueError(f"{where}: got {len(tasks)} task ({listing(tasks)}), expected at least two")
    lists = rows["pruned_for"].unique()
    if without := [task for task in (*tasks, NONE) if task not in lists]:
        what = f"heads of task {without[0]!r}" if without[0] != NONE else "no heads"
        known = [name for name in lists if name not in tasks]
        raise ValueError(
            f"{where}: no row with {what} pruned (pruned_for {without[0]!r})."
            f"{nearest(without[0], known if without[0] != NONE else [])}"
        )
    if "n" not in rows and "right" in rows:
        grouped = rows.groupby(CELL, sort=False)["right"]
        cells = grouped.agg(right="sum", n="size").reset_index()
        cells.index = pd.Index(rows.assign(first=rows.index).groupby(CELL, sort=False)["first"].first())
    else:
        cells = rows
    if "n" in cells:
        cells = cells.assign(value=cells["right"] / cells["n"])
        usual = cells["task"].map(cells[cells["pruned_for"] == NONE].groupby("task")["n"].first())
        if (bad := cells["n"] != usual).any():
            at = int(np.flatnonzero(bad)[0])
            unpruned = "no number" if np.isnan(usual.iloc[at]) else f"{usual.iloc[at]:g}"
            said = f"has {cells['n'].iloc[at]:g} answers to task {cells['task'].iloc[at]!r}"
            _refuse(cells, bad, f"{said}, expected the same number as without pruning, {unpruned}")
    if paired:
        _check_examples(rows, where)
    of_tasks = cells[cells["pruned_for"].isin(tasks)]
    sizes, seeds = sorted(of_tasks["size"].unique()), sorted(cells["seed"].unique())
    draws = cells[~cells["pruned_for"].isin([NONE, *tasks])].groupby("pruned_for")["draw"].unique()
    expected = [(NONE, 0.0, 0.0)] + [(task, 0.0, size) for task in tasks for size in sizes]
    expected += [(name, draw, size) for name, drawn in draws.items() for draw in drawn for size in sizes]
    wanted = pd.MultiIndex.from_tuples(
        [(seed, *one, task) for seed in seeds for one in expected for task in tasks],
        names=["seed", "pruned_for", "draw", "size", "task"],
    )
    there = pd.MultiIndex.from_frame(cells[list(wanted.names)])
    if len(missing := wanted.difference(there, sort=False)):
        seed, name, draw, size, task = missing[0]
        which = f" (draw {draw:g})" if name == RANDOM else ""
        seeded = f", seed {seed:g}" if len(seeds) > 1 else ""
        raise ValueError(
            f"{where}: no row of task {task!r} with pruned_for {name!r}{which} at size {size:g}{seeded}"
        )
    if (extra := ~there.isin(wanted)).any():
        _refuse(cells, extra, f"prunes {cells['size'][extra].iloc[0]:g}, as no list of a task does")
    runs = tuple(Run(model, "given", tasks, "given", int(seed)) for seed in seeds)
    return Given(tasks, runs, tuple(map(float, sizes)), cells, rows if paired else None)


def _check_examples(rows: pd.DataFrame, where: str) -> None:
    """Raise ValueError for a set of heads that lacks examples that another set of the same task has."""
    for task, part in rows.groupby("task", sort=False):
        found = part.groupby(["seed", "pruned_for", "draw", "size"], sort=False)["example"].size()
        n = part["example"].nunique()
        if len(short := found[found != n].reset_index(name="count")):
            seed, name, _, size, count = short.iloc[0]
            which = f"pruned_for {name!r} at size {size:g}, seed {seed:g}"
            raise ValueError(f"{where}: {which}, has {count} of the {n} examples of task {task!r}")
