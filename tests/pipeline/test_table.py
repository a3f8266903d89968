"""Tables of a study as papers print them: ``headspec table``."""

import io
import sys

import pandas as pd
import pytest

from headspec import tables
from headspec.cli import main
from headspec.errors import HeadspecError
from headspec.pipeline import outputs
from headspec.pipeline.commands.table import as_printed, interval_owners, write_table
from headspec.tables import FLOAT, TEXT
from support import pages
from support.figures import made
from support.paths import ROOT
from support.schemas import SCHEMAS

STUDY = ROOT / "docs" / "studies" / "five-tasks"
MEANS = ["task=mean", "method=tuned"]
#: tables of a study, whose rows are those of its runs together
TABLES = {name: schema for name, schema in SCHEMAS.items() if f"tables/{name}.parquet" in outputs.paths(name)}
#: what the interval ci_low to ci_high of a table is of
OWNERS = {
    "dissociation": ["dissociation", "combined", "fractions", "ranking_dissociation"],
    "mean_dissociation": ["mixtures"],
    "area": ["areas"],
    "similarity": ["similarity"],
    "change": ["probe_changes", "single_heads"],
    "value": ["heads", "pruning_areas", "pruning_curves", "transfer_summary"],
    "difference": [
        "budgets", "contrasts", "gains", "improvement", "sharing", "specialization", "task_differences",
    ],
}  # fmt: skip


def floats(name: str) -> set[str]:
    return {column for column, kind in SCHEMAS[name].columns.items() if kind == FLOAT}


def test_a_kept_study_as_text_latex_and_csv():
    text = write_table("combined", STUDY, rows=MEANS)
    assert "five  12.3† [9.8, 14.9] <0.001 distinct\n" in text and "ag+sst2  15.1 [10.9, 19.3]" in text
    assert text.endswith(
        "\nmodel: bge-small; method: tuned; task: mean; n seeds: 10; fraction: 0.3; ci over: seeds and "
        "examples\n†: at chance\n"
    )
    latex = write_table("combined", STUDY, "latex", MEANS)
    assert latex.isascii() and r"\label{tab:combined}" in latex and r"\toprule" in latex
    assert r"five & 12.3\textdagger{} [9.8, 14.9] & $<$0.001 & distinct \\" in latex
    assert r"dissociation \% & p & case \\" in latex and r"\begin{tabular}{lrrl}" in latex
    read = pd.read_csv(io.StringIO(write_table("combined", STUDY, "csv", MEANS)))
    assert list(read["dissociation %"]) == [
        line.split(" & ")[1].replace(r"\textdagger{}", "†") for line in latex.splitlines() if " [" in line
    ]
    assert set(read["model"]) == {"bge-small"} and set(read["n seeds"]) == {10}


def test_the_table_on_the_page():
    (block,) = [b.text for b in pages.blocks(ROOT / "docs" / "outputs.md") if "n seeds: 10" in b.text]
    printed = write_table("combined", STUDY, rows=MEANS).splitlines()
    shown = block.splitlines()
    assert shown.pop(2) == "..." and [line for line in printed if line in shown] == shown


def test_numbers_below_0_have_a_minus_in_latex():
    latex = write_table("improvement", ROOT / "docs" / "studies" / "iat-minilm", "latex", ["method=iat"])
    assert "$-$0.1 [$-$0.5, 0.3]" in latex and "seeds-" not in latex


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_printed(name):
    """Ends of intervals and flags of chance are nowhere, and every value is."""
    keys = list(SCHEMAS[name].columns)[: SCHEMAS[name].keys]
    frame = made(name, **{key: ["a", "b"] for key in keys if SCHEMAS[name].columns[key] == TEXT}, n_seeds=3)
    printed, common = as_printed(frame, floats(name), name)
    shown = {column.removesuffix(" %") for column in [*printed, *common]}
    assert not any(column.endswith((" low", " high", "chance")) for column in shown - {"by chance", "chance"})
    assert len(printed) == len(frame)
    values = [c for c in floats(name) if not c.endswith(("_low", "_high")) and "p_" not in c]
    assert {column.replace("_", " ") for column in values} <= shown


def test_whose_interval_it_is():
    found = {
        name: next(column for column, ends in owners.items() if ends == ("ci_low", "ci_high"))
        for name, schema in TABLES.items()
        if "ci_low" in schema.columns
        for owners in [interval_owners(schema.columns, floats(name))]
    }
    assert found == {name: owner for owner, names in OWNERS.items() for name in names}


def test_the_decisive_p_and_marks():
    rows = made("combined", model="m", mixture=["a", "b"], method="tuned", task="mean", n_seeds=3)
    rows = rows.assign(p_holm=0.5, p_seeds_holm=[0.01, None], at_chance=True, below_chance=[True, False])
    rows = rows.assign(dissociation=0.1, ci_low=[None, 0.05], ci_high=[None, 0.2], unpruned_at_chance=False)
    printed, _ = as_printed(rows, floats("combined"), "combined")
    assert list(printed["p"]) == ["0.010", "–"]
    assert list(printed["dissociation %"]) == ["10.0↓", "10.0† [5.0, 20.0]"]
    few = rows.assign(n_seeds=2, p_seeds_holm=float("nan"))
    printed, common = as_printed(few, floats("combined"), "combined")
    assert "p" not in printed and common["p of these runs"] == "0.500"


MISTAKES = {
    "combine": ("combine", STUDY, ()),
    "study": ("combined", STUDY.with_name("five-task"), ()),
    "column": ("combined", STUDY, ["taks=mean"]),
    "value": ("combined", STUDY, ["task=means"]),
    "none": ("combined", None, ()),
}
SAID = {
    "combine": r"five-tasks/tables: no table 'combine'; it has areas, .*\. Did you mean 'combined'\?$",
    "study": r"five-task: no folder tables; expected results of a study\. Did you mean '.*five-tasks'\?$",
    "column": r"--rows taks=mean: .*combined.parquet has no column 'taks'\. Did you mean 'task'\?$",
    "value": r"--rows task=means: 'task' is ag, mean, .* there\. Did you mean 'mean'\?$",
    "none": r"results: has nothing, expected one study, or its results after the table$",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_in_a_sentence(mistake):
    name, results, rows = MISTAKES[mistake]
    with pytest.raises(HeadspecError, match=SAID[mistake]):
        write_table(name, results, rows=rows)


def test_the_command_writes_the_table_of_the_only_study(tmp_path, monkeypatch, capsys):
    frame = made("areas", model="m", mixture=["a+b", "a+c"], method="tuned", task="mean", n_seeds=3)
    tables.write(tmp_path / "results/mine/tables/areas.parquet", SCHEMAS["areas"], frame, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["headspec", "table", "areas", "--latex", "-o", "paper/areas.tex"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code and capsys.readouterr().out == "paper/areas.tex\n"
    written = (tmp_path / "paper" / "areas.tex").read_text()
    assert written == write_table("areas", form="latex") and "a+b & " in written
