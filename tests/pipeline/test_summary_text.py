"""The text of the summary: what was found first, then tables of D, then where everything is."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from headspec.errors import HeadspecError
from headspec.pipeline.commands import summary
from support.figures import LARGE, SMALL, frame, made
from support.paths import ROOT
from support.schemas import SCHEMAS

BOTH = ["tuned", "frozen"]
PAIRS = ["+".join(pair) for pair in itertools.combinations(LARGE, 2)]
#: the least table of D
PLAIN = frame("combined", [dict(model="m", mixture="a+b", method="tuned", task="mean", distinct=False)])


def dissociation(**columns: object) -> pd.DataFrame:
    """Table 'combined' of tuned and frozen models that show none."""
    fields = dict(
        model="minilm", mixture="a+b", method=BOTH, task=["a", "b", "mean"], fraction=0.3, n_seeds=1
    )
    table = made(
        "combined", **fields | dict(ci_over="examples", unpruned_at_chance=False, distinct=False) | columns
    )
    return table.assign(case="none")


def lines_of(combined: pd.DataFrame = PLAIN, **frames: pd.DataFrame) -> list[str]:
    """The summary, every line of which folds into a terminal of any width, and loses nothing."""
    whole = summary.text(combined, Path("results/demo"), **frames)
    for width in (20, 60, 100):
        folded = summary.text(combined, Path("results/demo"), width, **frames)
        assert folded.split() == whole.split()
        wide = [line for line in folded.splitlines() if len(line) > width and " " in line.strip()]
        assert all(re.fullmatch(r" *\[[^]]*\]\S*", line) for line in wide), wide
    return whole.splitlines()


def test_it_begins_with_what_was_found_and_ends_with_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("figures", "report.html", "tables"):  # there is no explorer
        (tmp_path / "results/demo" / name).mkdir(parents=True)
    names = ["mixture", "method", "task", "dissociation", "ci_low", "ci_high", "p_holm", "at_chance", "case"]
    values = [
        ("a+b", "tuned", "a", 0.127, 0.101, 0.153, 0.0002, False, None),
        ("a+b", "tuned", "b", 0.09, 0.05, 0.1, 0.0421, True, None),
        ("a+b", "tuned", "mean", 0.1085, 0.08, 0.12, 0.0001, True, "double"),
        ("a+b", "frozen", "mean", 0.0, -0.02, 0.02, 1.0, False, "none"),
        ("c+d", "tuned", "mean", 0.2, 0.08, 0.25, 0.0421, False, "single"),
        ("c+d", "frozen", "mean", -0.01, -0.02, 0.02, 1.0, False, "none"),
    ]
    row = dict(model="minilm", n_seeds=2, ci_over="examples", fraction=0.1)
    rows = [row | dict(zip(names, each, strict=True), distinct=each[-1] == "double") for each in values]
    lines = lines_of(frame("combined", rows))
    found = "10 % of heads, 2 mixtures: tuned 1 double, 1 single; frozen 2 none"
    assert lines[0] == f"found      {found}" and lines[1] == ""
    assert lines[2].split("10")[0].strip() == "minilm"
    assert [line.split() for line in lines[4:8]] == [  # the largest first
        ["c+d", "tuned", "20.0", "[", "8.0,", "25.0]", "0.042", "single"],
        ["frozen", "-1.0", "[", "-2.0,", "2.0]", "1.000", "none"],
        ["a+b", "tuned", "10.8†", "[", "8.0,", "12.0]", "<0.001", "distinct"],
        ["frozen", "0.0", "[", "-2.0,", "2.0]", "1.000", "none"],
    ]
    assert len({line.index("[") for line in lines[4:8]}) == 1  # columns in line
    assert "[ ]        interval over examples alone: one or two seeds do not show how others vary" in lines
    assert lines[-4:] == [
        "not shown  2 rows by task: tables/combined.parquet",
        "figures    results/demo/figures",
        "report     results/demo/report.html",
        "tables     results/demo/tables",
    ]


def test_no_model_that_learnt_nothing_is_counted():
    """It says so first; here one of two frozen mixtures, and IAT of the other."""
    combined = pd.concat(
        [dissociation(), dissociation(mixture="a+c", task=["a", "c", "mean"])], ignore_index=True
    )
    mixed = (combined["mixture"] == "a+b") & (combined["method"] == "frozen")
    combined.loc[mixed & combined["task"].isin(["b", "mean"]), "unpruned_at_chance"] = True
    combined.loc[mixed & (combined["task"] == "mean"), "case"] = "chance"
    fractions = pd.concat([combined, combined.assign(fraction=0.5)])[list(SCHEMAS["fractions"].columns)]
    areas = combined.assign(area=0.2, ci_low=0.01)[list(SCHEMAS["areas"].columns)]
    pair = dict(model="minilm", contrast="methods", method="tuned", mixture="pairs", against="frozen")
    contrasts = frame("contrasts", [pair | dict(n_mixtures=0, n_left_out=2)])
    row = dict(model="minilm", task="mean", at_chance=True, unpruned_at_chance=True)
    after = frame("specialization", [row | dict(mixture="all", after=0.1, difference=0.05)])
    ranked = dict(row, mixture="a+b", method="frozen", ranking="importance", area=0.1)
    lines = lines_of(
        combined, fractions=fractions, areas=areas, contrasts=contrasts, specialization=after,
        belief=frame("belief", [ranked]),
    )  # fmt: skip
    found = lines[: lines.index("")]
    assert found[0] == "at chance  frozen: b (1 of 1 mixture)"
    assert found[1].strip() == "no better unpruned than a constant prediction; counted in no line below"
    assert found[2].endswith("tuned 2 none; frozen 1 none, 1 chance")
    assert found[3].endswith("interval of D above 0: tuned 2 of 2; frozen 1 of 1")
    assert found[4].strip() == "minilm, tuned: no pairs learnt, to compare with frozen" and len(found) == 5
    (line,) = [line for line in lines[len(found) :] if " chance " in line and "[" in line]
    assert line.split()[0] == "frozen"


def test_rankings_of_heads():
    """Means over mixtures of the tuned models; the best by its smallest area."""
    names = ["mixture", "method", "ranking", "area", "difference_p_holm", "ablation_spearman",
             "ablation_size_spearman"]  # fmt: skip
    values = [
        ("x", "tuned", "importance", 0.5, 0.01, 0.1, 0.9), ("y", "tuned", "importance", 0.6, 0.2, 0.3, 0.8),
        ("x", "tuned", "relevance", 0.7, 0.01, 0.5, 0.4), ("x", "tuned", "random", 0.8, None, None, None),
        ("x", "frozen", "confidence", 0.1, 0.01, 1.0, 1.0),
    ]  # fmt: skip
    rows = [
        dict(zip(names, each, strict=True), model="m", task="mean", difference=each[3] - 0.8)
        for each in values
    ]
    belief = frame("belief", [*rows, *(row | dict(task="a", area=0.0) for row in rows)])
    lines = lines_of(belief=belief)
    assert lines[1].strip() == "smallest area (tuned): importance 55.0 %, random 80.0 %, p < 0.05 in 1 of 2"
    assert lines[2].strip() == "most like ablation: relevance 0.50, like its size: importance 0.85"
    assert f"{len(belief)} rows by ranking of heads: tables/belief.parquet" in "\n".join(lines)


def test_a_large_study_has_every_mixture_and_method_under_its_whole_name():
    """Also D with five digits."""
    long = "rotten-tomatoes-sentences-binary+a+topic-pair"
    methods = ["tuned", "lora", "frozen"]
    combined = dissociation(model=["minilm", "other"], mixture=[long, *PAIRS], method=methods)
    combined["dissociation"] *= 100
    fractions = made(
        "fractions", model="minilm", mixture=PAIRS, method=BOTH, task=["a", "mean"], fraction=[0.1, 0.3]
    )
    areas = made("areas", model="minilm", mixture=PAIRS, method=BOTH, task="mean")
    lines = lines_of(combined, fractions=fractions, areas=areas)
    n = 2 * len([long, *PAIRS])
    assert f"{n} mixtures: " in lines[0]
    table = lines[lines.index("") + 3 :]
    table = table[: table.index("")]
    assert len(table) == n * len(methods)
    d = combined.query("task == 'mean' and method == 'tuned'")["dissociation"]
    shown = [float(line.split("tuned")[1].split()[0].strip("†")) for line in table if " tuned " in line]
    assert shown == [round(100 * each, 1) for each in sorted(d, reverse=True)]
    place = [long in line for line in table].index(True)
    assert [line.split("[")[0].split()[-2] for line in table[place : place + 3]] == methods
    assert f"{len(fractions)} rows by fraction of heads: tables/fractions.parquet" in "\n".join(lines)


def test_all_fractions_have_a_line_and_a_column():
    combined = dissociation()
    fields = dict(
        model="minilm", mixture="a+b", method=BOTH, task=["a", "b", "mean"], unpruned_at_chance=False
    )
    areas = made("areas", **fields)
    fractions = made("fractions", **fields, fraction=[0.1, 0.3])
    lines = lines_of(combined, fractions=fractions, areas=areas)
    means = areas[areas["task"] == "mean"].set_index("method")
    above = "; ".join(f"{method} {int(means.loc[method, 'ci_low'] > 0)} of 1" for method in BOTH)
    assert lines[0].startswith("found      30 % of heads, ") and lines[1].endswith(f"of D above 0: {above}")
    for method in BOTH:
        (line,) = [line for line in lines if f" {method} " in line and "[" in line]
        assert f"{100 * means.loc[method, 'area']:.1f}" in line.split("]")[1].split()
    single = fractions[fractions["fraction"] == 0.3]
    assert "all fractions" not in "\n".join(lines_of(combined, fractions=single, areas=areas))


def test_correlations():
    rows = [
        dict(model="m", measure="cka", pearson_r=-0.814, p_mantel=0.0301),
        dict(model="m", measure="dse", pearson_r=0.25, p_mantel=0.0002),
        dict(model="m", measure="rsa", pearson_r=0.1),
        dict(model="m", measure="text"),
    ]

    def line(rows: list[dict]) -> str:
        return lines_of(correlation=frame("correlation", rows))[1].strip()

    assert line(rows).split("similarity ")[1] == "-0.81 (cka) to 0.25 (dse), lowest p of 2 <0.001 (dse)"
    assert line(rows[:1]) == "r of D and similarity -0.81 (cka), p 0.030" and line(rows[3:]) == ""
    rows[1]["model"] = "other"
    found = "-0.81 (m, cka) to 0.25 (other, dse), lowest p of 2 <0.001 (other, dse)"
    assert line(rows).split("similarity ")[1] == found


@pytest.mark.parametrize("mixtures", [1, 5])
def test_iat_of_every_mixture(mixtures):
    common = dict(model="m", task="mean", metric="mean")
    methods = [
        dict(method="iat", value=0.7234, against="tuned", difference=0.0084, ci_low=-0.001, ci_high=0.0171,
             ci_over="seeds and examples", p_holm=0.0213),
        dict(method="tuned", value=0.715),
        dict(method="single", value=0.7, against="tuned", difference=-0.015, ci_low=-0.02,
             ci_high=-0.01, p_holm=0.0002),
    ]  # fmt: skip
    rows = [common | row | dict(mixture=f"a+{i}") for i in range(mixtures) for row in methods]
    rows += [row | dict(task="a", metric="f1") for row in rows]
    change = dict(
        model="m", mixture="a+b", before=0.1, after=0.142, difference=0.042, ci_low=0.01, ci_high=0.07
    )
    special = [
        change | dict(ci_over="examples", at_chance=task == "mean", task=task) for task in ("z", "mean")
    ]
    lines = lines_of(improvement=frame("improvement", rows), specialization=frame("specialization", special))
    found = [line.strip() for line in lines if "mean metric after IAT" in line]
    for i, line in enumerate(found):
        assert line == f"m, a+{i}: mean metric after IAT 72.3 %, change 0.8 [-0.1, 1.7], p 0.021"
    assert len(found) == mixtures
    assert "m, a+b: D after IAT 14.2 %†, change 4.2 [1.0, 7.0]" in [line.strip() for line in lines]
    more = "\n".join(lines)
    assert f"{len(rows) - mixtures} rows by method and task: tables/improvement.parquet" in more
    assert "1 rows of D before and after IAT: tables/specialization.parquet" in more


def test_tables_of_an_older_headspec_are_refused(tmp_path):
    path = tmp_path / "tables" / "combined.parquet"
    tables.write(path, SCHEMAS["combined"], dissociation(), {})
    tables.save(path, pq.read_table(path).drop_columns("unpruned_at_chance"))
    message = "combined.parquet: no column 'unpruned_at_chance'.*; run snakemake again"
    with pytest.raises(HeadspecError, match=message):
        summary.summarize(tmp_path)


@pytest.mark.slow
def test_the_command_prints_the_text(tmp_path):
    path = tmp_path / "tables" / "combined.parquet"
    tables.write(path, SCHEMAS["combined"], dissociation(task=[*SMALL, "mean"]), {})
    done = subprocess.run(
        [sys.executable, "-m", "headspec", "summary", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT / "workflow"), "PYTHONUTF8": "1"},
        capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert done.stdout.rstrip("\n") == summary.text(tables.read(path), tmp_path)
