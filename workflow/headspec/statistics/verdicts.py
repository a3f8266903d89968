"""Which differences are clear: by the p for other seeds, if there are enough, else by the p of these runs."""

import pandas as pd

from headspec.statistics.intervals import FEWEST
from headspec.statistics.resampling import SIGNIFICANCE, holm
from headspec.tables import FLOAT

#: columns of a test: p of these runs alone, and for other seeds (null with one or two), and both corrected
TESTED = dict.fromkeys(("p_value", "p_holm", "p_seeds", "p_seeds_holm"), FLOAT)


def corrected(table: pd.DataFrame, family: pd.Series | list[pd.Series]) -> pd.DataFrame:
    """Return `table` with p of these runs and p for other seeds, if it has that, corrected in a `family`."""
    groups, columns = table.groupby(family), {"p_value": "p_holm", "p_seeds": "p_seeds_holm"}
    return table.assign(**{columns[p]: groups[p].transform(holm) for p in columns if p in table})


def of_seeds(table: pd.DataFrame, name: str = "p") -> pd.Series:
    """Whether the decisive p of each row is for other seeds.

    It is not with one or two seeds, nor where its column is null, as in kept tables of an older headspec.
    """
    here, seeds = f"{name}_holm", f"{name}_seeds_holm"
    missing = table[seeds].isna() & table[here].notna() if seeds in table else False
    return (table["n_seeds"] >= FEWEST) & ~pd.Series(missing, table.index)


def decisive(table: pd.DataFrame, name: str = "p") -> pd.Series:
    """Corrected p of each row for other seeds, or without that for these runs alone.

    In tables without ``{name}_seeds_holm``, ``{name}_holm`` is this p.
    """
    here, seeds = table[f"{name}_holm"], f"{name}_seeds_holm"
    return table[seeds].where(of_seeds(table, name), here) if seeds in table else here


def clear_of_seeds(table: pd.DataFrame, name: str = "p") -> pd.Series:
    """Whether the decisive p of each row is below 0.05 and for other seeds: never with one or two."""
    return of_seeds(table, name) & (decisive(table, name) < SIGNIFICANCE)
