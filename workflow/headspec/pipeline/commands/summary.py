"""The summary of a study: its findings, and where everything is."""

import itertools
import math
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from headspec import tables
from headspec.errors import HeadspecError
from headspec.numbers import hundredths
from headspec.pipeline import state
from headspec.pipeline.commands import findings
from headspec.pipeline.commands.printed import (
    UNLEARNT,
    by_method,
    case_words,
    p_text,
    row_dicts,
    run_key,
    share,
    shown_areas,
    shown_means,
)
from headspec.pipeline.current import Results, other_versions
from headspec.statistics.chance import MARKS, marks
from headspec.statistics.intervals import decisive, of_seeds

LABEL, NAME, METHOD = 11, 25, 7  # widths of a label, of a mixture's name (minimum), and of a method
D = f"{'D %':>6}   {'[  low,   high]'}  "
FIXED = "\N{NO-BREAK SPACE}"

#: columns that tables of older headspecs lack
NEEDED = {
    UNLEARNT: ("combined", "fractions", "areas", "improvement", "specialization", "budgets", "sharing"),
    "p_seeds_holm": ("combined", "areas", "single_heads", "budgets", "sharing", "probe_changes"),
    "difference_p_seeds_holm": ("belief",),
}

NOTES = f"""\
D          dissociation: how much more of its unpruned metric a task loses when its own heads are
           pruned than when the heads of other tasks are; mean over tasks and seeds, largest first
{{interval}}
{{p}}
{MARKS["at_chance"]}          a pruned model is no better than chance at some task, so D means little
{MARKS["unpruned_at_chance"]}          nor is the unpruned one, which learnt nothing, so D counts for nothing
{MARKS["below_chance"]}          the unpruned one is worse than every constant prediction: are labels swapped?
case       of the tasks one by one, whatever the p of their mean; double: every task clearly above
           0, distinct if the mean reaches the threshold; single: some task, all tested together;
           inverted: none above 0, some clearly below; chance: an unpruned model learnt nothing"""


def summarize(folder: Path, width: int | None = None, trust: bool = False) -> tuple[str, bool]:
    """Return the summary of the results in `folder`, and whether the study is finished.

    It names, and leaves out, outdated results and those of another config; it also says whether other package
    versions made them. With `trust`, results that were begun elsewhere are also compared with their study,
    which runs its code. Raises HeadspecError if a table is missing, damaged, or of an older headspec.
    """
    paths = [folder / "tables" / f"{name}.parquet" for name in ("combined", *findings.OPTIONAL)]
    own = state.select(folder, filter(Path.exists, paths), trust)
    if not any(own):
        raise HeadspecError(
            f"{folder}: no tables/combined.parquet; expected the results of a study, such as results/demo"
        )
    frames = {path.stem: _table(path.stem, path) for path in own.finished}
    combined = frames.pop("combined", findings.NO_MIXTURES)
    outdated = other_versions(Results(folder))
    parts = [
        "\n".join(_folded(line, width) for line in own[1:] if line),
        text(combined, folder, width, **frames).strip("\n"),
        outdated,
    ]
    return "\n\n".join(filter(None, parts)), not own.unfinished


def _table(name: str, path: Path) -> pd.DataFrame:
    table = tables.read(path.absolute())  # so that results in a renamed folder can be summarised
    if lacking := [column for column, names in NEEDED.items() if name in names and column not in table]:
        raise HeadspecError(
            f"{path}: no column '{lacking[0]}', so an older headspec made it; run snakemake again"
        )
    return table


def text(combined: pd.DataFrame, results: Path, width: int | None = None, **frames: pd.DataFrame) -> str:
    """Return the summary, wrapped at `width`; `frames` are the study's tables of `findings.OPTIONAL`."""
    means = shown_means(combined)
    areas = shown_areas(frames)
    sentences, left_out = findings.describe(combined, frames, means, areas)
    lines = [*_labelled("at chance", findings.unlearnt(combined)), *_labelled("found", sentences)]
    if len(means):
        lines += ["", *_table_of(means, areas)]
        lines += ["", *NOTES.format(interval=_interval(means), p=_p(means)).splitlines()]
    places = {"figures": "figures", "report": "report.html", "explorer": "explorer.html", "tables": "tables"}
    places = {name: path for name, path in places.items() if (results / path).exists()}
    lines += ["", *_labelled("not shown", left_out)]
    lines += [f"{name:<{LABEL}}{results / path}" for name, path in places.items()]
    return "\n".join(_folded(line, width) for line in lines)


# --- the table of mixtures


def _table_of(means: pd.DataFrame, areas: pd.DataFrame | None) -> Iterator[str]:
    """Yield two headings, and a line for each mixture and method, in descending D of the first method."""
    models = [str(model) for model in means["model"].unique()]
    shown = means.assign(p=decisive(means), mark=marks(means), case=case_words(means))
    whole = {} if areas is None else {run_key(row): row for row in row_dicts(areas)}
    rows = []
    for (model, mixture), own in shown.groupby(["model", "mixture"]):
        name = f"{model}, {mixture}" if len(models) > 1 else str(mixture)
        lines = [(row["method"], _numbers(row, whole.get(run_key(row)))) for row in _in_order(own)]
        first_d = next(_in_order(own))["dissociation"]
        rows.append((-math.inf if pd.isna(first_d) else first_d, name, lines))
    first = models[0] if len(models) == 1 else ""
    wide = max(NAME, *(len(each) + 1 for each in (first, *(name for _, name, _ in rows))))
    test = f"{'p' if of_seeds(means).all() else 'p runs':>6}  {'case':<9}"
    both = areas is not None
    yield f"{first:<{wide + METHOD}}{share(means) + ' pruned':<{len(D + test)}}" + "all fractions" * both
    yield f"{'mixture':<{wide}}{'method':<{METHOD}}{D}{test}" + D * both
    for _, name, lines in sorted(rows, key=lambda row: row[0], reverse=True):
        for i, (method, numbers) in enumerate(lines):
            yield f"{'' if i else name:<{wide}}{method:<{METHOD}}{numbers}"


def _in_order(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield rows of one model and mixture in the order of methods."""
    return itertools.chain.from_iterable(row_dicts(each) for _, each in by_method(rows))


def _numbers(row: dict[str, Any], area: dict[str, Any] | None) -> str:
    """Return ``   3.0   [  0.2,    5.8]   0.348  none          4.6   [  2.5,    6.6]``"""
    d, case = hundredths(row["dissociation"]), row["case"] if pd.notna(row["case"]) else ""
    text = f"{d:>6}{row['mark'] or ' '}  {_range(row)}  {p_text(row['p']):>6}  {case:<9}"
    return text if area is None else f"{text}{hundredths(area['area']):>6}   {_range(area)}"


# --- words and lines


def _interval(means: pd.DataFrame) -> str:
    """Return the note on what the intervals cover."""
    over = " or ".join(sorted(means["ci_over"].dropna().unique()))
    alone = " alone: one or two seeds do not show how others vary" if over == "examples" else ""
    return f"[ ]        interval over {over}{alone}"


def _p(means: pd.DataFrame) -> str:
    """Return the note on the scope of p."""
    if of_seeds(means).all():
        return """\
p          of that mean for other seeds and examples, Holm-corrected over the study"""
    return """\
p runs     of that mean for these runs on other examples, by permutation of whose heads are pruned,
           Holm-corrected over the study: it says nothing about other seeds"""


def _range(row: dict[str, Any]) -> str:
    if pd.isna(row["ci_low"]):
        return " " * 15
    return f"[{hundredths(row['ci_low']):>5}, {hundredths(row['ci_high']):>6}]"


def _labelled(label: str, lines: list[str]) -> list[str]:
    return [f"{'' if i else label:<{LABEL}}{line}" for i, line in enumerate(lines)]


def _folded(line: str, width: int | None) -> str:
    """Return a line wrapped at `width`, without breaks inside intervals."""
    line = line.rstrip()
    if not width or len(line) <= width:
        return line
    line = re.sub(r"\[[^]]*\]", lambda interval: interval[0].replace(" ", FIXED), line)
    indent = " " * LABEL if width > 2 * LABEL else ""
    folded = textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(folded).replace(FIXED, " ")
