"""Tables of a study that the explorer shows, and their numbers as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec import tables
from headspec.errors import MissingError
from headspec.head_arrays import Layers

if TYPE_CHECKING:
    from headspec.config.study import Study  # which loads kinds of tasks; jobs need none

Columns = dict[str, Any]
#: significant digits of statistics, and of what there is one of for each head
DIGITS, HEAD_DIGITS = 6, 4


def json_value(value: Any, digits: int = DIGITS) -> Any:
    """`value` as JSON has it: null for missing numbers, and at most `digits` significant digits."""
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and not np.isfinite(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        rounded = float(f"{value:.{digits}g}")
        return int(rounded) if rounded.is_integer() else rounded
    return str(value)


def json_list(values: Iterable[Any], digits: int = DIGITS) -> list[Any]:
    """`values` as a list for JSON."""
    return [json_value(value, digits) for value in values]


def json_columns(frame: pd.DataFrame, names: Iterable[str]) -> Columns:
    """Return the named columns that a table has; text as its distinct values and their places."""
    return {name: _column(frame[name]) for name in names if name in frame}


def _column(column: pd.Series) -> Any:
    """Numbers and flags as a list; text as its distinct values, and the place of each row's, or null."""
    if not pd.api.types.is_string_dtype(column.dropna()):
        return json_list(column.tolist())
    places, values = pd.factorize(column)
    return {"values": json_list(values), "places": [int(place) if place >= 0 else None for place in places]}


#: tables of a study that some view shows, by the target or section that asks for them
TABLES = {
    "all": ("areas", "combined", "contrasts", "dissociation", "fractions"),
    "similarity": ("correlation", "similarity"),
    "iat": ("improvement", "specialization"),
    "atlas": (
        "agreement", "belief", "head_roles", "heads", "pruning_curves", "single_heads", "task_differences",
    ),
    "gates": ("budgets", "gates"),
    "probes": ("probe_changes", "probes", "sharing"),
    "grouping": ("gain_prediction_scores", "gain_predictions", "gains"),
}  # fmt: skip
STUDY_TABLES = tuple(itertools.chain(*TABLES.values()))
#: tables of a run that some view shows
RUN_TABLES = ("importance", "pruning")


@dataclass(frozen=True)
class Run:
    """A run by its place `runs/{model}/{mixture}/{method}/seed{seed}`, and its tables by name."""

    model: str
    mixture: str
    method: str
    seed: int
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """Tables of a study and of its runs, and the footer of each by its place."""

    tables: dict[str, pd.DataFrame]
    runs: list[Run]
    footers: dict[str, dict[str, Any]]

    def table(self, name: str) -> pd.DataFrame | None:
        """Return a table of the study, None if it has none; KeyError for one that `TABLES` lacks."""
        if name not in STUDY_TABLES:
            raise KeyError(f"a view shows the table '{name}', which TABLES in {__name__} does not have")
        return self.tables.get(name)

    @property
    def study(self) -> str:
        """Name of the study in the tables."""
        return next(str(footer["study"]) for footer in self.footers.values())

    @property
    def attention(self) -> dict[str, Layers]:
        """Number of layers of each kind of attention, for models with several."""
        return {
            model: layers
            for footer in self.footers.values()
            for model, layers in footer.get("attention", {}).items()
        }


def asked(study: Study) -> list[str]:
    """Return the tables of a study that the page shows."""
    has = {
        "all": True,
        "similarity": bool(study.similarity.measures),
        "iat": "iat" in study.methods and bool(study.iat.mixtures),
    }
    targets = (name for name in TABLES if has.get(name, name in study.methods))
    return [table for name in targets for table in TABLES[name]]


def find_tables(results: Path) -> list[Path]:
    """The tables in the results of a study; MissingError if there are none."""
    paths = [path for name in STUDY_TABLES if (path := results / "tables" / f"{name}.parquet").exists()]
    for name in RUN_TABLES:
        paths += sorted(results.glob(f"runs/*/*/*/seed*/{name}.parquet"))
    if not paths:
        raise MissingError(f"{results}: expected results of a study, such as results/demo; it has no tables")
    return paths


def load_tables(paths: Iterable[str | Path]) -> Sources:
    """Read tables of a study and of its runs that some view shows."""
    sources = Sources({}, [], {})
    runs: dict[tuple[str, str, str, int], Run] = {}
    for path in sorted(set(map(Path, paths))):
        name, parts = path.stem, path.parts
        if name in RUN_TABLES and parts[-6] == "runs":
            model, mixture, method, seed = parts[-5:-1]
            key = (model, mixture, method, int(seed.removeprefix("seed")))
            run = runs.setdefault(key, Run(*key))
            run.tables[name] = tables.read(path)
        elif name in STUDY_TABLES:
            sources.tables[name] = tables.read(path)
        else:
            continue
        sources.footers["/".join(parts[-6:] if name in RUN_TABLES else parts[-2:])] = tables.footer(path)
    sources.runs.extend(runs.values())
    return sources
