"""Findings of a study: a line for each question that its tables answer."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headspec.numbers import hundredths, plain
from headspec.pipeline.commands import printed
from headspec.pipeline.commands.headless import headless
from headspec.statistics.chance import marks
from headspec.statistics.dissociation.scores import CHANCE
from headspec.statistics.intervals import decisive
from headspec.statistics.resampling import SIGNIFICANCE

CASES = (printed.DISTINCT, "double", "single", "inverted", "none", CHANCE)
#: tables that a study may have besides 'combined': what their rows are
OPTIONAL = {
    "fractions": "rows by fraction of heads",
    "areas": "",  # shown beside the rows of 'combined'
    "contrasts": "differences between methods and mixtures",
    "correlation": "correlations with similarity",
    "improvement": "rows by method and task",
    "specialization": "rows of D before and after IAT",
    "belief": "rows by ranking of heads",
    "pruning_curves": "",  # of which the end is shown
    "single_heads": "rows by ablated head",
    "head_roles": "rows by head",
    "budgets": "rows by pruning method and number of heads",
    "sharing": "rows by mixture and task",
    "probes": "rows by label and choice of heads",
    "probe_changes": "changes of what heads know",
}
#: the table 'combined' of a study without mixtures
NO_MIXTURES = pd.DataFrame(columns=["model", "method", "task", printed.UNLEARNT])
#: names of contrasts of means over pairs of tasks
PAIRS, ACROSS = "pairs", "across paradigms"
#: what measures of heads are compared with: column of 'belief'
LIKENESS = {"ablation:": "ablation_spearman", "its size:": "ablation_size_spearman"}


def describe(
    combined: pd.DataFrame, frames: dict[str, pd.DataFrame], means: pd.DataFrame, areas: pd.DataFrame | None
) -> tuple[list[str], list[str]]:
    """Return lines on the findings, and lines on rows of tables that are not shown.

    No line counts models that learnt nothing of a task, or differences between such models. `means` and
    `areas` are the rows of tables 'combined' and 'areas' that are shown; `frames` are other tables by name.
    """
    nothing = {printed.run_key(row) for row in printed.row_dicts(means[means[printed.UNLEARNT].eq(True)])}

    def without_unlearnt(table: pd.DataFrame) -> pd.DataFrame:
        if printed.UNLEARNT in table:
            table = table[~table[printed.UNLEARNT].eq(True)]
        if not (nothing and {"mixture", "method"} <= {*table}):
            return table
        return table.loc[[printed.run_key(row) not in nothing for row in printed.row_dicts(table)]]

    sentences = [_cases(means)] if len(means) else []
    shown = {"combined": means}
    if areas is not None:
        sentences.append(_above_zero(without_unlearnt(areas)))
    if "specific" in means and len(enough := means[means["specific"].notna()]):
        sentences.append(_specific(enough))
    if (contrasts := frames.get("contrasts")) is not None:
        shown["contrasts"] = contrasts[contrasts["mixture"].isin((PAIRS, ACROSS))]
        sentences += [_contrasted(row) for row in printed.row_dicts(shown["contrasts"])]
    if (correlation := frames.get("correlation")) is not None:
        sentences += _similarity(correlation)
    if (improvement := frames.get("improvement")) is not None:
        iat = improvement[printed.means_over_tasks(improvement) & (improvement["method"] == "iat")]
        iat = shown["improvement"] = without_unlearnt(iat)
        tested = iat.assign(p=decisive(iat), p_name=printed.p_name(iat))
        sentences += [_improved(row) for row in printed.row_dicts(tested)]
    if (specialization := frames.get("specialization")) is not None:
        shown["specialization"] = without_unlearnt(specialization[printed.means_over_tasks(specialization)])
        specialized = shown["specialization"].assign(mark=marks(shown["specialization"]))
        sentences += [_specialized(row) for row in printed.row_dicts(specialized)]
    with_none = ("pruning_curves", "budgets")
    sentences += headless({name: without_unlearnt(frames[name]) for name in with_none if name in frames})
    for name, told in {
        "belief": _believed, "single_heads": _ablated, "head_roles": _roles, "budgets": _kept,
        "sharing": _shared, "probes": _known, "probe_changes": _probe_changes,
    }.items():  # fmt: skip
        if name in frames and len(rows := without_unlearnt(frames[name])):
            sentences += told(rows)
    every = {"combined": combined} | frames
    if areas is None:  # of one fraction alone, 'fractions' repeats 'combined'
        every.pop("fractions", None)
    left = {name: len(table) - len(shown.get(name, ())) for name, table in every.items()}
    what = {"combined": "rows by task"} | OPTIONAL
    return sentences, [
        f"{n} {what[name]}: tables/{name}.parquet" for name, n in left.items() if n and what[name]
    ]


def lines(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the opening lines of a page on a study, those of its summary, from its tables by name."""
    frames = {name: tables[name] for name in OPTIONAL if name in tables}
    combined = tables.get("combined", NO_MIXTURES)
    sentences, _ = describe(combined, frames, printed.shown_means(combined), printed.shown_areas(frames))
    *tasks, note = unlearnt(combined) or [""]
    return [*(f"{line}: {note}" for line in tasks), *sentences]


def unlearnt(combined: pd.DataFrame) -> list[str]:
    """Return lines on tasks that unpruned models have not learnt: ``frozen: topic (2 of 3 mixtures)``."""
    tasks = combined[~printed.means_over_tasks(combined)]
    several = combined["model"].nunique() > 1
    names = []
    for (model, method), rows in tasks.groupby(["model", "method"], sort=False):
        named = [
            f"{task} ({own.sum()} of {len(own)} mixture{'s' * (len(own) != 1)})"
            for task, own in rows[printed.UNLEARNT].eq(True).groupby(rows["task"], sort=False)
            if own.any()
        ]
        if named:
            names.append(f"{f'{model}, ' * several}{method}: {', '.join(named)}")
    return (
        [*names, "no better unpruned than a constant prediction; counted in no line below"] if names else []
    )


# --- dissociation, similarity and IAT


def _cases(means: pd.DataFrame) -> str:
    """Return ``10 % of heads, 4 mixtures: tuned 1 single, 3 none; frozen 4 none``"""
    parts = []
    for method, rows in printed.by_method(means):
        words = printed.case_words(rows)
        counts = {case: int((words == case).sum()) for case in CASES}
        parts.append(f"{method} " + ", ".join(f"{n} {case}" for case, n in counts.items() if n))
    n = len(means[["model", "mixture"]].drop_duplicates())
    return f"{printed.share(means)}, {n} mixture{'s' * (n != 1)}: {'; '.join(parts)}"


def _above_zero(areas: pd.DataFrame) -> str:
    """Return ``all fractions of heads together, interval of D above 0: tuned 3 of 4; frozen 0 of 4``"""
    return f"all fractions of heads together, interval of D above 0: {_counts(areas, areas['ci_low'] > 0)}"


def _specific(means: pd.DataFrame) -> str:
    """Return ``specific to their tasks, beyond strong lists and fragile tasks: tuned 1 of 2; ...``"""
    counts = _counts(means, means["specific"].eq(True))
    return f"specific to their tasks, beyond strong lists and fragile tasks: {counts}"


def _counts(table: pd.DataFrame, true: pd.Series) -> str:
    """Return ``tuned 3 of 4; frozen 0 of 4``"""
    groups = printed.by_method(table.assign(true=true))
    return "; ".join(f"{name} {rows['true'].sum()} of {len(rows)}" for name, rows in groups)


def _contrasted(row: dict[str, Any]) -> str:
    """Return ``minilm, tuned: mean D of 10 pairs 8.4 %, difference from frozen 3.1 [1.2, 5.0]``"""
    if pd.isna(row["difference"]):
        which = "pairs" if row["mixture"] == PAIRS else f"pairs {ACROSS}"
        return f"{row['model']}, {row['method']}: no {which} learnt, to compare with {row['against']}"
    pairs, other = f"{row['n_mixtures']} pairs", row["against"]
    if row["mixture"] == ACROSS:
        pairs, other = f"pairs {ACROSS}", f"pairs {row['against']}"
    value = f"{hundredths(row['dissociation'])} %, difference from {other} {_change(row)}"
    return f"{row['model']}, {row['method']}: mean D of {pairs} {value}"


def _similarity(correlation: pd.DataFrame) -> list[str]:
    """Return ``r of D and similarity -1.00 (cka) to 0.54 (paradigm), lowest p of 10 0.167 (importance)``"""
    rows = printed.row_dicts(correlation.dropna(subset=["pearson_r"]).sort_values("pearson_r"))
    if not rows:
        return []

    def named(number: str, row: dict[str, Any]) -> str:
        model = f"{row['model']}, " if correlation["model"].nunique() > 1 else ""
        return f"{number} ({model}{row['measure']})"

    if len(rows) == 1:
        r, p = rows[0]["pearson_r"], printed.p_text(rows[0]["p_mantel"])
        return [f"r of D and similarity {named(plain(r), rows[0])}" + f", p {p}" * bool(p)]
    low, high = (named(plain(row["pearson_r"]), row) for row in (rows[0], rows[-1]))
    tested = [row for row in rows if pd.notna(row["p_mantel"])]
    line = f"r of D and similarity {low} to {high}"
    if tested:
        least = min(tested, key=lambda row: row["p_mantel"])
        line += f", lowest p of {len(tested)} {named(printed.p_text(least['p_mantel']), least)}"
    return [line]


def _improved(row: dict[str, Any]) -> str:
    """Return ``minilm, all-three: mean metric after IAT 72.3 %, change 0.8 [-0.1, 1.7], p 0.021``"""
    value, p = f"{hundredths(row['value'])} %", f"{row['p_name']} {printed.p_text(row['p'])}"
    return f"{_name(row)}: mean metric after IAT {value}, change {_change(row)}, {p}"


def _specialized(row: dict[str, Any]) -> str:
    """Return ``minilm, all-three: D after IAT 14.2 %, change 4.2 [1.0, 7.0]``"""
    return f"{_name(row)}: D after IAT {hundredths(row['after'])} %{row['mark']}, change {_change(row)}"


def _believed(belief: pd.DataFrame) -> list[str]:
    """Return lines on the ranking that best finds the heads that matter, and measures most like ablation.

    ``smallest area (tuned): rescored 61.2 %, random 67.9 %, p < 0.05 in 2 of 2``
    ``most like ablation: gradient_x_activation 0.91, like its size: importance 0.99``
    """
    method, rows = next(iter(printed.by_method(printed.shown_means(belief))), ("", pd.DataFrame()))
    if rows.empty:
        return []
    rankings = rows.groupby("ranking")[["area", *LIKENESS.values()]].mean()
    measures = rankings.drop(index="random")
    if measures["area"].isna().all():
        return []
    best, random = str(measures["area"].idxmin()), float(rankings["area"].to_dict()["random"])
    own = rows[rows["ranking"] == best]
    p = printed.p_name(own)
    clear = int(((own["difference"] < 0) & (decisive(own, "difference_p") < SIGNIFICANCE)).sum())
    area = f"{best} {hundredths(measures['area'].min())} %, random {hundredths(random)} %"
    nearest = {of: measures[column].dropna() for of, column in LIKENESS.items()}
    like = [f"{of} {values.idxmax()} {plain(values.max())}" for of, values in nearest.items() if len(values)]
    return [
        f"smallest area ({method}): {area}, {p} < {SIGNIFICANCE} in {clear} of {len(own)}",
        *([f"most like {', like '.join(like)}"] if like else []),
    ]


# --- heads


def _ablated(single_heads: pd.DataFrame) -> list[str]:
    """Return ``single heads, ablation: the metric is lower in 12 of 288 rows (p < 0.05), higher in 1``"""
    return [
        f"single heads, {measure}: the metric is {_tested(rows, 'change', 'rows')}"
        for measure, rows in single_heads.groupby("measure")
    ]


def _roles(head_roles: pd.DataFrame) -> list[str]:
    """Return ``roles of heads: 12 positional, 3 syntactic, 57 none``"""
    counts = head_roles["role"].value_counts()
    return ["roles of heads: " + ", ".join(f"{n} {role}" for role, n in counts.items())]


def _kept(budgets: pd.DataFrame) -> list[str]:
    """Return ``fewer heads, against whole: the metric is lower in 12 of 49 rows (p < 0.05), higher in 0``"""
    group = [budgets[name] for name in ("model", "mixture", "method", "scope")]
    has_mean = printed.means_over_tasks(budgets).groupby(group).transform("any")
    rows = budgets[printed.means_over_tasks(budgets) | ~has_mean]
    return [
        f"fewer heads, against {against}: the metric is {_tested(own, 'difference', 'rows')}"
        for against, own in rows.groupby("against")
    ]


def _shared(sharing: pd.DataFrame) -> list[str]:
    """Return ``tasks together, against each alone: the mean metric is lower in 0 of 16 mixtures ...``"""
    rows = sharing[printed.means_over_tasks(sharing)]
    if rows.empty:
        return []
    return [
        "tasks together, against each alone: the mean metric is " + _tested(rows, "difference", "mixtures")
    ]


def _known(probes: pd.DataFrame) -> list[str]:
    """Return ``selectivity of the best heads: interval above 0 in 12 of 15 probes``"""
    rows = probes[probes["label"].isna() & (probes["heads"] == "best")]
    above = int((rows["selectivity_low"] > 0).sum())
    return [f"selectivity of the best heads: interval above 0 in {above} of {len(rows)} probes"]


def _probe_changes(changes: pd.DataFrame) -> list[str]:
    """Return ``what the best heads know, against pretrained: lower in 0 of 5 probes (p < 0.05), ...``"""
    rows = changes[changes["label"].isna() & (changes["heads"] == "best")]
    return [
        f"what the best heads know, against {before}: {_tested(own, 'change', 'probes')}"
        for before, own in rows.groupby("before")
    ]


def _tested(rows: pd.DataFrame, column: str, what: str) -> str:
    """Return ``lower in 12 of 49 rows (p < 0.05), higher in 0``"""
    p, difference = decisive(rows), rows[column]
    lower, higher = (int((side & (p < SIGNIFICANCE)).sum()) for side in (difference < 0, difference > 0))
    test = f"{printed.p_name(rows)} < {SIGNIFICANCE}"
    return f"lower in {lower} of {p.notna().sum()} {what} ({test}), higher in {higher}"


# --- words


def _name(row: dict[str, Any]) -> str:
    return f"{row['model']}, {row['mixture']}"


def _change(row: dict[str, Any]) -> str:
    """Return ``0.8 [-0.1, 1.7]``"""
    ends = f" [{hundredths(row['ci_low'])}, {hundredths(row['ci_high'])}]" if pd.notna(row["ci_low"]) else ""
    return f"{hundredths(row['difference'])}{ends}"
