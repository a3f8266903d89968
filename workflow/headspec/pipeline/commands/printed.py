"""Rows of tables that commands print, and words for them."""

from typing import Any

import pandas as pd

from headspec.config.methods import NAMED
from headspec.config.values import MEAN
from headspec.statistics.intervals import of_seeds

DISTINCT = "distinct"
UNLEARNT = "unpruned_at_chance"  # column that tells which models learnt nothing


def means_over_tasks(table: pd.DataFrame) -> pd.Series:
    """Return which rows are means over tasks."""
    return table["task"] == MEAN


def run_key(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the model, mixture and method of a row."""
    return row["model"], row["mixture"], row["method"]


def row_dicts(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def by_method(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return each method in `table`, with its rows."""
    groups = ((method, table[table["method"] == method]) for method in NAMED)
    return [(method, rows) for method, rows in groups if len(rows)]


def shown_means(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means over tasks, for the methods shown."""
    return table[means_over_tasks(table) & table["method"].isin(NAMED)]


def shown_areas(frames: dict[str, pd.DataFrame]) -> pd.DataFrame | None:
    """Return the means over tasks of the table 'areas', if heads are pruned at several fractions."""
    if not {"areas", "fractions"} <= {*frames} or frames["fractions"]["fraction"].nunique() < 2:
        return None
    return shown_means(frames["areas"])


def case_words(means: pd.DataFrame) -> pd.Series:
    """Return the case of each row, or `distinct` for a double dissociation that is."""
    return means["case"].mask(means["distinct"].eq(True), DISTINCT)


def share(means: pd.DataFrame) -> str:
    """Return ``10 % of heads``"""
    fractions = [f"{100 * each:.3g} %" for each in means["fraction"].dropna().unique()]
    return " or ".join(fractions) + " of heads"


def p_name(rows: pd.DataFrame) -> str:
    """Return the name of the decisive p of rows: with one or two seeds it ignores how seeds vary."""
    return "p" if of_seeds(rows).all() else "p of these runs"


def p_text(value: Any) -> str:
    """Return a p-value for display; empty if there is none."""
    return "" if pd.isna(value) else "<0.001" if value < 0.001 else f"{value:.3f}"
