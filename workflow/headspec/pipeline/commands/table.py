"""A table of a study as papers print it: values with intervals, one p, marks of chance."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from headspec import tables
from headspec.errors import ConfigError, MissingError, UnfinishedError, listing, nearest
from headspec.numbers import MISSING, hundredths, plain
from headspec.pipeline import state
from headspec.pipeline.commands.printed import DISTINCT, p_text
from headspec.provenance.files import atomic
from headspec.statistics.chance import MARKS, SAYS, marks
from headspec.statistics.intervals import of_seeds
from headspec.tables import FLOAT

FORMATS = ("text", "latex", "csv")
#: where studies are, if none is named
RESULTS = Path("results")
#: columns in the unit of a metric or of D, which are printed in per cent
PER_CENT = {
    "accuracy", "after", "area", "base", "before", "chance", "change", "control", "difference",
    "dissociation", "draws", "gain", "harm", "mean_dissociation", "net", "others", "own", "predicted",
    "random", "selectivity", "shared", "value",
}  # fmt: skip
#: tables whose columns with such names have other units: measures of heads, and numbers of them
OTHER_UNITS = ("heads", "role_counts", "task_differences")
#: columns of settings, printed as they are given
SETTINGS = ("alpha", "delta", "fraction", "penalty")
#: standard deviations, which have no interval; their names begin so
SPREAD = ("between_", "sd_")
#: what ends the name of a p that is one of several of a test
P_ENDS = r"(?:_value|_corrected|_holm|_seeds|_seeds_holm)$"
#: columns with D, which marks of chance are about
_D = {"dissociation", "mean_dissociation"}
#: what LaTeX, or its older fonts, would not print, after pandas has escaped the rest
LATEX = str.maketrans({
    "†": r"\textdagger{}", "×": r"$\times$", "↓": r"$\downarrow$", "<": "$<$", ">": "$>$", MISSING: "--",
})  # fmt: skip
MINUS = r"(?<![\w.-])-(?=\d)"


def write_table(
    name: str,
    results: Path | None = None,
    form: str = "text",
    rows: Iterable[str] = (),
    output: Path | None = None,
    trust: bool = False,
) -> str:
    """Return a table of a study as text, LaTeX or CSV, or write it to `output` and return its path.

    Parameters
    ----------
    name : of a file in the folder tables, such as combined
    results : folder of the study's results; by default the only study in `RESULTS`
    form : one of `FORMATS`
    rows : conditions ``<column>=<value>`` that all rows meet, such as ``task=mean``
    trust : also compare results that were begun elsewhere with their study, which runs its code

    Raises
    ------
    MissingError
        There is no such table or study.
    UnfinishedError
        The table is out of date, or not one that the study's config makes.
    ConfigError
        A condition names a column or value that the table lacks.
    """
    results = _only_results() if results is None else results
    path = _path(name, results)
    own = state.select(results, [path], trust)
    if not own.finished:
        raise UnfinishedError(f"{path}: out of date; {own.unfinished or own.left_out}")
    chosen = _chosen(tables.read(path.absolute()), list(rows), path)
    floats = {field.name for field in pq.read_schema(path) if field.type == FLOAT}
    printed, common = as_printed(chosen, floats, name)
    notes = [*_notes(printed, common)]
    if form == "latex":
        text = _latex(printed, name, notes)
    elif form == "csv":
        whole = pd.DataFrame(common, index=printed.index)
        text = pd.concat([whole, printed], axis="columns").to_csv(index=False)
    else:
        text = "\n".join([printed.to_string(index=False), "", *notes, ""])
    if output is None:
        return text
    with atomic(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return f"{output}\n"


def _only_results() -> Path:
    """Return the results of the only study in `RESULTS`; raise MissingError for none or several."""
    found = [folder.parent for folder in sorted(RESULTS.glob("*/tables"))]
    if len(found) != 1:
        raise MissingError(
            f"{RESULTS}: has {listing(found)}, expected one study, or its results after the table"
        )
    return found[0]


def _path(name: str, results: Path) -> Path:
    """Return the file of a table; raise MissingError, naming the nearest study or table, if it is missing."""
    folder = results / "tables"
    if not folder.is_dir():
        others = [each.parent for each in sorted(results.parent.glob("*/tables"))]
        raise MissingError(
            f"{results}: no folder tables; expected results of a study.{nearest(results, others)}"
        )
    path = folder / f"{name}.parquet"
    if not path.is_file():
        present = [
            each.relative_to(folder).with_suffix("").as_posix() for each in sorted(folder.rglob("*.parquet"))
        ]
        raise MissingError(f"{folder}: no table '{name}'; it has {listing(present)}.{nearest(name, present)}")
    return path


def _chosen(frame: pd.DataFrame, rows: list[str], path: Path) -> pd.DataFrame:
    """Return the rows that meet conditions ``<column>=<value>``; raise ConfigError if there are none."""
    for condition in rows:
        column, _, value = condition.partition("=")
        if column not in frame:
            raise ConfigError(
                f"--rows {condition}: {path} has no column '{column}'.{nearest(column, list(frame))}"
            )
        texts = frame[column].map(_word)
        frame = frame[texts == value]
        if frame.empty:
            there = sorted({*texts})
            raise ConfigError(
                f"--rows {condition}: '{column}' is {listing(there, 10)} there.{nearest(value, there)}"
            )
    return frame


def as_printed(frame: pd.DataFrame, floats: set[str], name: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table as text, and the columns that have one value in all rows, which it leaves out.

    `floats` are the columns of fractions; with missing values, `frame` has whole numbers as floats, too.
    Values are followed by their intervals, ``12.3 [9.8, 14.9]``, and one of them by the mark of chance. Of
    several p, the decisive one is left. Columns without any value are left out.
    """
    held = [str(column) for column in frame if frame[column].notna().any()]
    owner, families = interval_owners(held, floats), p_families(map(str, frame))
    left_out = {*MARKS, "distinct", *itertools.chain(*owner.values(), *families.values())}
    numbers = [column for column in held if _is_measured(column, floats)]
    marked = next(iter(_D.intersection(held) or owner or numbers), "")
    cells: dict[str, pd.Series] = {}
    for column in held:
        if family := next((family for family, own in families.items() if column in own), ""):
            own_name, p = decisive_p(frame, family, families.pop(family))
            cells[own_name] = p.map(p_text)
        stem = column.removesuffix("_low")
        per_cent = stem in PER_CENT and name not in OTHER_UNITS
        if stem != column and column not in left_out:  # a range without a value
            ends = (column, f"{stem}_high")
            left_out.update(ends)
            cells[stem + " %" * per_cent] = _range(frame, ends, per_cent).str.strip()
        if column in left_out:
            continue
        shown = _words(frame, column, floats, per_cent)
        if column == marked:
            shown += marks(frame)
        if column in owner:
            shown += _range(frame, owner[column], per_cent)
        cells[column.replace("_", " ") + " %" * per_cent] = shown
    printed = pd.DataFrame(cells, index=frame.index).replace("", MISSING)
    common = [column for column, values in printed.items() if len(printed) > 1 and values.nunique() == 1]
    return printed.drop(columns=common), {str(column): printed[column].iloc[0] for column in common}


def p_families(held: Iterable[str]) -> dict[str, list[str]]:
    """Return the p of each test, ``{"p": ["p_value", "p_holm", ...]}``, by the name without what ends it."""
    families: dict[str, list[str]] = {}
    for column in held:
        if re.search(r"(^|_)p_", column):
            families.setdefault(re.sub(P_ENDS, "", column), []).append(column)
    return families


def decisive_p(frame: pd.DataFrame, family: str, own: list[str]) -> tuple[str, pd.Series]:
    """Return name and values of a test's p: corrected, and for other seeds where there are enough."""
    of_others = [column for column in own if column.startswith(f"{family}_seeds")]
    of_these = [column for column in own if column not in of_others]
    shown = family.replace("_", " ")
    if not (of_others and of_these and "n_seeds" in frame):
        return shown, frame[own[-1]]
    which = of_seeds(frame)
    p = frame[of_others[-1]].where(which, frame[of_these[-1]])
    return shown + " of these runs" * (not which.all()), p


def interval_owners(held: Iterable[str], floats: set[str]) -> dict[str, tuple[str, str]]:
    """Return the columns that have an interval, each with the columns of its bounds.

    ``ci_low`` and ``ci_high`` bound the last number before them that is not a standard deviation.
    """
    held, owner, before = list(held), {}, ""
    for column in held:
        if column == "ci_low":
            owner[before] = ("ci_low", "ci_high")
        elif (both := (f"{column}_low", f"{column}_high"))[0] in held:
            owner[column] = both
        elif _is_measured(column, floats):
            before = column
    return owner


def _is_measured(column: str, floats: set[str]) -> bool:
    """Return whether a column has numbers that are neither settings nor standard deviations."""
    return column in floats.difference(SETTINGS) and not column.startswith(SPREAD)


def _words(frame: pd.DataFrame, column: str, floats: set[str], per_cent: bool) -> pd.Series:
    """Return a column as text."""
    values = frame[column]
    if column == "case" and "distinct" in frame:
        values = values.mask(frame["distinct"].eq(True), DISTINCT)
    if column in floats.difference(SETTINGS):
        return values.map(hundredths if per_cent else plain)
    return values.map(_word)


def _word(value: Any) -> str:
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _range(frame: pd.DataFrame, ends: tuple[str, str], per_cent: bool) -> pd.Series:
    """Return `` [9.8, 14.9]`` of each row; empty without an interval."""
    low, high = (frame[end].map(hundredths if per_cent else plain) for end in ends)
    return (" [" + low + ", " + high + "]").where(frame[ends[0]].notna(), "")


def _notes(printed: pd.DataFrame, common: dict[str, str]) -> Iterable[str]:
    """Yield what all rows have in common, and what marks mean."""
    if common:
        yield "; ".join(f"{column}: {value}" for column, value in common.items())
    text = "".join(printed.select_dtypes(exclude="number").to_numpy().ravel())
    for mark, meaning in SAYS.items():
        if mark in text:
            yield f"{mark}: {meaning}"


def _latex(printed: pd.DataFrame, name: str, notes: list[str]) -> str:
    """Return a table in the style of booktabs, whose caption has the notes."""
    numbers = [column for column in printed if printed[column].str.match(r"[-–<\d]").all()]
    layout = "".join("r" if column in numbers else "l" for column in printed)
    text = printed.to_latex(
        index=False, escape=True, caption=". ".join(notes) or name, label=f"tab:{name}", column_format=layout
    )
    return re.sub(MINUS, "$-$", text.translate(LATEX))
