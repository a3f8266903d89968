"""The summary of a finished study on one screen: what was found, and where everything is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pandas as pd

from headspec import tables
from headspec.config.methods import NAMED
from headspec.errors import HeadspecError
from headspec.pipeline import records
from headspec.statistics.training.improvement import decisive

LINES, COLUMNS = 30, 100  # at most
LABEL, NAME, METHOD = 11, 25, 7  # columns of a label, of a mixture's name and of a method
D, TEST = f"{'D %':>6}   {'[  low,   high]'}  ", f"{'p':>6}  {'case':<9}"
MOST = 3  # lines on contrasts, on IAT, and on dissociation after it, at most
CASES = ("double", "single", "inverted", "none")
AT_CHANCE = "†"
#: the value of `task` in rows with the mean over a mixture's tasks
MEAN = "mean"

#: tables that a study may also have
OPTIONAL = ("fractions", "areas", "contrasts", "correlation", "improvement", "specialization", "belief")
#: contrasts that are shown: those of means over pairs of tasks
OVER_PAIRS = ("pairs", "across paradigms")
#: what measures of heads are held against: the column of 'belief'
LIKENESS = {"ablation:": "ablation_spearman", "its size:": "ablation_size_spearman"}
MARKED = ("combined", "fractions", "specialization")  # those that say which rows are at chance

NOTES = f"""\
D          dissociation: how much more of its unpruned metric a task loses when its own heads are
           pruned than when the heads of other tasks are; mean over tasks and seeds, largest first
{{interval}}
p          permutation test whether it matters whose heads are pruned, Holm-corrected over the study
{AT_CHANCE}          a pruned model is no better than chance at some task, so D means little
case       double: every task clearly above 0, distinct if the mean reaches the threshold; single:
           some task, all tested together; inverted: none above 0, some clearly below"""


def of_results(folder: Path) -> str:
    """The summary of the results in `folder`, and whether other versions of packages made them.

    Raises
    ------
    HeadspecError
        A table is missing, cannot be read, or was made by headspec before 0.2.
    """
    paths = {name: folder / "tables" / f"{name}.parquet" for name in ("combined", *OPTIONAL)}
    if not paths["combined"].exists():
        raise HeadspecError(
            f"{folder}: no tables/combined.parquet; expected the results of a study, such as results/demo"
        )
    frames = {n: _table(n, path) for n, path in paths.items() if n == "combined" or path.exists()}
    outdated = records.outdated(folder)
    return text(results=folder, **frames) + (f"\n\n{outdated}" if outdated else "")


def _table(name: str, path: Path) -> pd.DataFrame:
    table = tables.read(path.absolute())  # so that results in a renamed folder can be summarised
    if name in MARKED and "at_chance" not in table:
        raise HeadspecError(
            f"{path}: no column 'at_chance', so headspec before 0.2 made it; run snakemake again"
        )
    return table


def text(
    combined: pd.DataFrame,
    results: Path,
    fractions: pd.DataFrame | None = None,
    areas: pd.DataFrame | None = None,
    contrasts: pd.DataFrame | None = None,
    correlation: pd.DataFrame | None = None,
    improvement: pd.DataFrame | None = None,
    specialization: pd.DataFrame | None = None,
    belief: pd.DataFrame | None = None,
) -> str:
    """The summary, at most `LINES` lines of `COLUMNS` columns; what is left out is counted with its table.

    Parameters
    ----------
    combined : table 'combined'
    results : folder of the study's results
    fractions, areas, contrasts, correlation, improvement, specialization, belief : tables of these names,
        if the study has them
    """
    means = _means(combined)
    found, left_out = [_cases(means)], {"combined": (len(combined) - len(means), "rows by task")}
    if fractions is None or areas is None or fractions["fraction"].nunique() < 2:
        areas = None
    else:
        areas = _means(areas)
        found.append(_above_zero(areas))
        left_out["fractions"] = len(fractions), "rows by fraction of heads"
    if contrasts is not None:
        over_pairs = contrasts[contrasts["mixture"].isin(OVER_PAIRS)].head(MOST)
        found += [_contrasted(row) for row in _rows(over_pairs)]
        left_out["contrasts"] = len(contrasts) - len(over_pairs), "differences between methods and mixtures"
    if correlation is not None:
        found += _similarity(correlation)
        left_out["correlation"] = len(correlation), "correlations with similarity"
    if improvement is not None:
        iat = improvement[(improvement["task"] == MEAN) & (improvement["method"] == "iat")].head(MOST)
        found += [_improved(row) for row in _rows(iat.assign(p=decisive(iat)))]
        left_out["improvement"] = len(improvement) - len(iat), "rows by method and task"
    if specialization is not None:
        after = specialization[specialization["task"] == MEAN].head(MOST)
        found += [_specialized(row) for row in _rows(after)]
        left_out["specialization"] = len(specialization) - len(after), "rows of D before and after IAT"

    if belief is not None:
        found += _believed(belief)
        left_out["belief"] = len(belief), "rows by ranking of heads"

    above = [*_labelled("found", found), "", *_heads(means, areas)]
    below = ["", *NOTES.format(interval=_interval(means)).splitlines(), ""]
    places = {"figures": "figures", "report": "report.html", "explorer": "explorer.html", "tables": "tables"}
    places = {name: path for name, path in places.items() if (results / path).exists()}
    mixtures = _mixtures(means, areas)
    room = LINES - len(above) - len(below) - len(left_out) - len(places)
    shown = mixtures[: max(1, room // max(map(len, mixtures), default=1))]
    if hidden := len(mixtures) - len(shown):
        rows, what = left_out["combined"]
        left_out["combined"] = rows, f"{what}, and {hidden} of {len(mixtures)} mixtures"
    below += _labelled(
        "not shown", [f"{n} {what}: tables/{name}.parquet" for name, (n, what) in left_out.items() if n]
    )
    below += [f"{name:<{LABEL}}{results / path}" for name, path in places.items()]
    return "\n".join([*above, *itertools.chain(*shown), *below])


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """The means over tasks, of the methods that are shown."""
    return table[(table["task"] == MEAN) & table["method"].isin(NAMED)]


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _by_method(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Each method that `table` has, and its rows."""
    groups = ((method, table[table["method"] == method]) for method in NAMED)
    return [(method, rows) for method, rows in groups if len(rows)]


# --- what was found


def _cases(means: pd.DataFrame) -> str:
    """``10 % of heads, 4 mixtures: tuned 1 single, 3 none; frozen 4 none``"""
    parts = []
    for method, rows in _by_method(means):
        counts = {case: int((rows["case"] == case).sum()) for case in CASES}
        parts.append(f"{method} " + ", ".join(f"{n} {case}" for case, n in counts.items() if n))
    n = len(means[["model", "mixture"]].drop_duplicates())
    return f"{_share(means)}, {n} mixture{'s' * (n != 1)}: {'; '.join(parts)}"


def _above_zero(areas: pd.DataFrame) -> str:
    """``all fractions of heads together, interval of D above 0: tuned 3 of 4; frozen 0 of 4``"""
    parts = [f"{name} {int((rows['ci_low'] > 0).sum())} of {len(rows)}" for name, rows in _by_method(areas)]
    return f"all fractions of heads together, interval of D above 0: {'; '.join(parts)}"


def _contrasted(row: dict[str, Any]) -> str:
    """``minilm, tuned: mean D of 10 pairs 8.4 %, less that of frozen 3.1 [1.2, 5.0]``"""
    mixtures = f"{row['n_mixtures']} pairs" if row["mixture"] == "pairs" else row["mixture"]
    value = f"{100 * row['dissociation']:.1f} %, less that of {row['against']}"
    return f"{row['model']}, {row['method']}: mean D of {mixtures} {value} {_change(row)}"


def _similarity(correlation: pd.DataFrame) -> list[str]:
    """``r of D and similarity -1.00 (cka) to 0.54 (paradigm), lowest p of 10 0.167 (importance)``"""
    rows = _rows(correlation.dropna(subset=["pearson_r"]).sort_values("pearson_r"))
    if not rows:
        return []

    def named(number: str, row: dict[str, Any]) -> str:
        model = f"{row['model']}, " if correlation["model"].nunique() > 1 else ""
        return f"{number} ({model}{row['measure']})"

    if len(rows) == 1:
        r, p = rows[0]["pearson_r"], _p(rows[0]["p_mantel"])
        return [f"r of D and similarity {named(f'{r:.2f}', rows[0])}" + f", p {p}" * bool(p)]
    low, high = (named(f"{row['pearson_r']:.2f}", row) for row in (rows[0], rows[-1]))
    tested = [row for row in rows if pd.notna(row["p_mantel"])]
    line, more = f"r of D and similarity {low} to {high}", ""
    if tested:
        least = min(tested, key=lambda row: row["p_mantel"])
        more = f"lowest p of {len(tested)} {named(_p(least['p_mantel']), least)}"
    whole = ", ".join(filter(None, [line, more]))
    return [whole] if len(whole) <= COLUMNS - LABEL else [line, more]


def _improved(row: dict[str, Any]) -> str:
    """``minilm, all-three: mean metric after IAT 72.3 %, change 0.8 [-0.1, 1.7], p 0.021``"""
    value = f"{100 * row['value']:.1f} %"
    return f"{_name(row)}: mean metric after IAT {value}, change {_change(row)}, p {_p(row['p'])}"


def _specialized(row: dict[str, Any]) -> str:
    """``minilm, all-three: D after IAT 14.2 %, change 4.2 [1.0, 7.0]``"""
    mark = AT_CHANCE if row["at_chance"] else ""
    return f"{_name(row)}: D after IAT {100 * row['after']:.1f} %{mark}, change {_change(row)}"


def _believed(belief: pd.DataFrame) -> list[str]:
    """Which ranking finds the heads that matter, and which measures are most like ablation (Spearman).

    ``smallest area (tuned): rescored 61.2 %, random 67.9 %, p < 0.05 in 2 of 2``
    ``most like ablation: gradient_x_activation 0.91, like its size: importance 0.99``
    """
    method, rows = next(iter(_by_method(_means(belief))), ("", pd.DataFrame()))
    if rows.empty:
        return []
    rankings = rows.groupby("ranking")[["area", *LIKENESS.values()]].mean()
    measures = rankings.drop(index="random")
    best, random = str(measures["area"].idxmin()), float(rankings["area"].to_dict()["random"])
    own = rows[rows["ranking"] == best]
    clear = int(((own["difference"] < 0) & (own["difference_p_holm"] < 0.05)).sum())
    area = f"{best} {100 * measures['area'].min():.1f} %, random {100 * random:.1f} %"
    nearest = {of: measures[column].dropna() for of, column in LIKENESS.items()}
    like = [f"{of} {values.idxmax()} {values.max():.2f}" for of, values in nearest.items() if len(values)]
    return [
        f"smallest area ({method}): {area}, p < 0.05 in {clear} of {len(own)}",
        *([f"most like {', like '.join(like)}"] if like else []),
    ]


def _name(row: dict[str, Any]) -> str:
    return _cut(f"{row['model']}, {row['mixture']}", NAME)


# --- the table of mixtures


def _heads(means: pd.DataFrame, areas: pd.DataFrame | None) -> list[str]:
    models = means["model"].unique()
    model = _cut(models[0], NAME - 1) if len(models) == 1 else ""
    first = f"{model:<{NAME + METHOD}}{_share(means) + ' pruned':<{len(D + TEST)}}"
    second = f"{'mixture':<{NAME}}{'method':<{METHOD}}{D}{TEST}"
    if areas is not None:
        first, second = f"{first}all fractions", second + D
    return [first.rstrip(), second.rstrip()]


def _mixtures(means: pd.DataFrame, areas: pd.DataFrame | None) -> list[list[str]]:
    """The lines of each mixture, one per method; mixtures with the largest D of their first method first."""
    several = means["model"].nunique() > 1
    whole = {} if areas is None else {_run(row): row for row in _rows(areas)}
    mixtures = []
    for (model, mixture), rows in means.groupby(["model", "mixture"]):
        of_methods = [row for _, each in _by_method(rows) for row in _rows(each)]
        names = [_cut(f"{model}, {mixture}" if several else str(mixture), NAME - 1), ""]
        lines = [
            f"{name:<{NAME}}{row['method']:<{METHOD}}{_numbers(row, whole.get(_run(row)))}".rstrip()
            for name, row in zip(names, of_methods, strict=False)
        ]
        mixtures.append((of_methods[0]["dissociation"], lines))
    return [lines for _, lines in sorted(mixtures, key=lambda each: each[0], reverse=True)]


def _run(row: dict[str, Any]) -> tuple[str, ...]:
    return row["model"], row["mixture"], row["method"]


def _numbers(row: dict[str, Any], area: dict[str, Any] | None) -> str:
    """``   3.0   [  0.2,    5.8]   0.348  none          4.6   [  2.5,    6.6]``"""
    mark = AT_CHANCE if row["at_chance"] else " "
    case = "distinct" if row["distinct"] else row["case"] or ""
    text = f"{100 * row['dissociation']:6.1f}{mark}  {_range(row)}  {_p(row['p_holm']):>6}  {case:<9}"
    return text if area is None else f"{text}{100 * area['area']:6.1f}   {_range(area)}"


# --- words and numbers


def _share(means: pd.DataFrame) -> str:
    """``10 % of heads``"""
    fractions = [f"{100 * each:.3g} %" for each in means["fraction"].dropna().unique()]
    return " or ".join(fractions) + " of heads"


def _interval(means: pd.DataFrame) -> str:
    """The note on what the intervals are over."""
    over = " or ".join(sorted(means["ci_over"].dropna().unique()))
    alone = " alone: one or two seeds do not show how others vary" if over == "examples" else ""
    return f"[ ]        interval over {over}{alone}"


def _labelled(label: str, lines: list[str]) -> list[str]:
    return [f"{'' if i else label:<{LABEL}}{_cut(line, COLUMNS - LABEL)}" for i, line in enumerate(lines)]


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"


def _change(row: dict[str, Any]) -> str:
    """``0.8 [-0.1, 1.7]``"""
    ends = f" [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]" if pd.notna(row["ci_low"]) else ""
    return f"{100 * row['difference']:.1f}{ends}"


def _range(row: dict[str, Any]) -> str:
    return (
        f"[{100 * row['ci_low']:5.1f}, {100 * row['ci_high']:6.1f}]" if pd.notna(row["ci_low"]) else " " * 15
    )


def _p(value: Any) -> str:
    return "" if pd.isna(value) else "<0.001" if value < 0.001 else f"{value:.3f}"
