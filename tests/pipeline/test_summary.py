"""The text of the summary: findings first, then tables of D, then where everything is."""

import itertools
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headspec import tables
from headspec.errors import HeadspecError
from headspec.explorer.finished import write_explorer
from headspec.pipeline import state
from headspec.pipeline.commands import summary
from headspec.pipeline.commands.debug import run_job
from support.figures import LARGE, frame, made
from support.schemas import SCHEMAS

RUN = {"model": "m", "mixture": "a+b", "method": "tuned", "n_seeds": 3}
BOTH = ["tuned", "frozen"]
PAIRS = ["+".join(pair) for pair in itertools.combinations(LARGE, 2)]
#: differences that are lower, higher, and not tested well enough to say
DOWN, UP = {"difference": -0.1, "p_seeds_holm": 0.01}, {"difference": 0.1, "p_seeds_holm": 0.02}
UNCLEAR = {"difference": -0.2, "p_seeds_holm": 0.2}
MEAN = {"task": "mean", "metric": "mean"}


def dissociation(**columns: object) -> pd.DataFrame:
    """Table 'combined' of tuned and frozen models that show none."""
    fields = dict(
        model="minilm", mixture="a+b", method=BOTH, task=["a", "b", "mean"], fraction=0.3, n_seeds=1
    )
    table = made(
        "combined",
        **fields
        | dict(ci_over="examples", unpruned_at_chance=False, distinct=False, specific=None)
        | columns,
    )
    return table.assign(case="none")


def lines_of(combined: pd.DataFrame | None = None, **rows: pd.DataFrame | list[dict]) -> list[str]:
    """The summary of tables, every line of which folds into a terminal of any width, and loses nothing."""
    combined = frame("combined", []) if combined is None else combined
    frames = {name: frame(name, each) if isinstance(each, list) else each for name, each in rows.items()}
    whole = summary.text(combined, Path("results/demo"), **frames)
    for width in (20, 60, 100):
        folded = summary.text(combined, Path("results/demo"), width, **frames)
        assert folded.split() == whole.split()
        wide = [line for line in folded.splitlines() if len(line) > width and " " in line.strip()]
        assert all(re.fullmatch(r" *\[[^]]*\]\S*", line) for line in wide), wide
    return whole.splitlines()


def found(lines: list[str]) -> list[str]:
    """The lines of what was found."""
    return [line[11:] for line in lines[: lines.index("")]]


# --- dissociation


def test_specific_lists_are_counted_where_it_can_be_told():
    rows = dissociation(mixture=["a+b", "four", "nine"], task="mean", method="tuned", specific=None)
    assert not any("specific" in line for line in lines_of(rows))
    told = found(lines_of(rows.assign(specific=[None, True, False])))
    assert "specific to their tasks, beyond strong lists and fragile tasks: tuned 1 of 2" in told


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
    assert lines[:2] == [
        "found      10 % of heads, 2 mixtures: tuned 1 distinct, 1 single; frozen 2 none",
        "",
    ]
    assert lines[2].split("10")[0].strip() == "minilm"
    assert [line.split() for line in lines[4:8]] == [  # the largest first
        ["c+d", "tuned", "20.0", "[", "8.0,", "25.0]", "0.042", "single"],
        ["frozen", "-1.0", "[", "-2.0,", "2.0]", "1.000", "none"],
        ["a+b", "tuned", "10.8†", "[", "8.0,", "12.0]", "<0.001", "distinct"],
        ["frozen", "0.0", "[", "-2.0,", "2.0]", "1.000", "none"],
    ]
    assert len({line.index("[") for line in lines[4:8]}) == 1  # columns in line
    assert lines[3].split()[-3:] == ["p", "runs", "case"]
    assert "p runs     of that mean for these runs on other examples" in "\n".join(lines)
    assert "[ ]        interval over examples alone: one or two seeds do not show how others vary" in lines
    assert lines[-4:] == [
        "not shown  2 rows by task: tables/combined.parquet",
        "figures    results/demo/figures",
        "report     results/demo/report.html",
        "tables     results/demo/tables",
    ]
    seeds = dict(n_seeds=3, ci_over="seeds and examples", p_seeds_holm=0.5)
    lines = lines_of(frame("combined", [row | seeds for row in rows]))
    assert lines[3].split()[-2:] == ["p", "case"] and {line.split()[-2] for line in lines[4:8]} == {"0.500"}
    assert "p          of that mean for other seeds and examples, Holm-corrected over the study" in lines


def test_numbers_that_are_missing_or_at_chance_are_marked_as_in_figures():
    """A dash for a missing number, † for a pruned model at chance, × for an unpruned one."""
    combined = dissociation().assign(dissociation=-0.0003, at_chance=True)
    frozen = combined["method"] == "frozen"
    combined.loc[frozen, ["dissociation", "ci_low", "ci_high"]] = np.nan
    combined["unpruned_at_chance"] = frozen
    lines = lines_of(combined)
    tuned, other = (line.split() for line in lines[lines.index("") + 3 :][:2])
    assert tuned[2] == "0.0†" and other[:2] == ["frozen", "–×"]
    assert "nan" not in "\n".join(lines) and any(line.startswith("×  ") for line in lines)


def test_models_without_any_head_are_told():
    """Those of pruned runs, and of curves whose heads are all pruned; most left first."""
    base = RUN | {"scope": "shared", "against": "whole", "difference": 0.0, "metric": "accuracy"}
    values = [("l0", 0.0, "topic", 0.5), ("l0", 2.0, "tickets", 0.7), ("whole", 12.0, "topic", 0.8),
              ("whole", 12.0, "tickets", 0.8)]  # fmt: skip
    budgets = [base | dict(way=w, heads=n, task=t, value=v, fraction=n / 12) for w, n, t, v in values]
    assert "without any head: topic 50.0 % (with all 80.0 %)" in found(lines_of(budgets=budgets))
    ends = [("tickets", 0.0, 0.91), ("tickets", 0.5, 0.2), ("tickets", 1.0, 0.9)]
    curves = [RUN | dict(metric="accuracy", ranking="random", order="top", task=t, fraction=f, value=v)
              for t, f, v in ends]  # fmt: skip
    names = SCHEMAS["pruning_curves"].columns
    curves = [{name: row[name] for name in names if name in row} for row in curves]
    (line,) = [line for line in found(lines_of(budgets=budgets, pruning_curves=curves)) if "without" in line]
    assert line == ("without any head: tickets 90.0 % (with all 91.0 %), topic 50.0 % (with all 80.0 %)")


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
    pairs = dict(model="minilm", contrast="methods", method="tuned", mixture="pairs", against="frozen")
    nothing = RUN | DOWN | MEAN | {"mixture": "c+d", "unpruned_at_chance": True}
    base = {"scope": "per_task", "way": "l0", "fraction": 0.1, "against": "whole"}
    ranked = dict(model="minilm", task="mean", at_chance=True, unpruned_at_chance=True)
    lines = lines_of(
        combined,
        fractions=fractions,
        areas=areas,
        contrasts=[pairs | dict(n_mixtures=0, n_left_out=2)],
        improvement=[nothing | {"method": "iat", "against": "tuned", "value": 0.5}],
        specialization=[ranked | dict(mixture="all", after=0.1, difference=0.05)],
        belief=[ranked | dict(mixture="a+b", method="frozen", ranking="importance", area=0.1)],
        budgets=[each | base for each in (RUN | DOWN | MEAN, nothing)],
        sharing=[RUN | DOWN | MEAN, nothing],
    )
    said = found(lines)
    assert said[0] == "frozen: b (1 of 1 mixture)" and lines[0].startswith("at chance  ")
    assert said[1] == "no better unpruned than a constant prediction; counted in no line below"
    assert said[2].endswith("tuned 2 none; frozen 1 none, 1 chance")
    assert said[3].endswith("interval of D above 0: tuned 2 of 2; frozen 1 of 1")
    assert said[4:] == [
        "minilm, tuned: no pairs learnt, to compare with frozen",
        "fewer heads, against whole: the metric is lower in 1 of 1 rows (p < 0.05), higher in 0",
        "tasks together, against each alone: the mean metric is lower in 1 of 1 mixtures (p < 0.05), higher "
        "in 0",
    ]
    (line,) = [line for line in lines[len(said) :] if " chance " in line and "[" in line]
    assert line.split()[0] == "frozen"


def test_a_large_study_has_every_mixture_and_method_under_its_whole_name():
    """Also D with five digits, and a column of D over all fractions, of which a line says what is clear."""
    long = "rotten-tomatoes-sentences-binary+a+topic-pair"
    methods = ["tuned", "lora", "frozen"]
    combined = dissociation(model=["minilm", "other"], mixture=[long, *PAIRS], method=methods)
    combined["dissociation"] *= 100
    fields = dict(model="minilm", mixture=PAIRS, method=BOTH, unpruned_at_chance=False)
    fractions = made("fractions", **fields, task=["a", "mean"], fraction=[0.1, 0.3])
    areas = made("areas", **fields, task="mean")
    lines = lines_of(combined, fractions=fractions, areas=areas)
    n = 2 * len([long, *PAIRS])
    above = areas["ci_low"].gt(0).groupby(areas["method"]).sum()
    said = "; ".join(f"{method} {above[method]} of {len(PAIRS)}" for method in BOTH)
    assert f"{n} mixtures: " in lines[0] and lines[1].endswith(f"interval of D above 0: {said}")
    table = lines[lines.index("") + 3 :]
    table = table[: table.index("")]
    assert len(table) == n * len(methods) and sum(long in line for line in table) == 2
    d = combined.query("task == 'mean' and method == 'tuned'")["dissociation"]
    shown = [float(line.split("tuned")[1].split()[0].strip("†")) for line in table if " tuned " in line]
    assert shown == [round(100 * each, 1) for each in sorted(d, reverse=True)]
    place = [f"minilm, {PAIRS[0]} " in line for line in table].index(True)
    own = areas[areas["mixture"] == PAIRS[0]].set_index("method")["area"]
    for method, line in zip(methods, table[place : place + 3], strict=True):
        first, *second = line.split("]")[:-1]
        assert first.split("[")[0].split()[-2] == method and len(second) == (method in own)
        assert not second or f"{100 * own[method]:.1f}" in second[0].split()
    assert f"{len(fractions)} rows by fraction of heads: tables/fractions.parquet" in "\n".join(lines)
    single = fractions[fractions["fraction"] == 0.3]
    assert "all fractions" not in "\n".join(lines_of(combined, fractions=single, areas=areas))


# --- other lines


def test_rankings_of_heads():
    """Means over mixtures of the tuned models; the best by its smallest area."""
    names = ["mixture", "method", "ranking", "area", "difference_p_seeds_holm", "ablation_spearman",
             "ablation_size_spearman"]  # fmt: skip
    values = [
        ("x", "tuned", "importance", 0.5, 0.01, 0.1, 0.9), ("y", "tuned", "importance", 0.6, 0.2, 0.3, 0.8),
        ("x", "tuned", "relevance", 0.7, 0.01, 0.5, 0.4), ("x", "tuned", "random", 0.8, None, None, None),
        ("x", "frozen", "confidence", 0.1, 0.01, 1.0, 1.0),
    ]  # fmt: skip
    rows = [
        dict(zip(names, each, strict=True), model="m", task="mean", n_seeds=3, difference=each[3] - 0.8)
        for each in values
    ]
    lines = lines_of(belief=[*rows, *(row | dict(task="a", area=0.0) for row in rows)])
    assert found(lines) == [
        "smallest area (tuned): importance 55.0 %, random 80.0 %, p < 0.05 in 1 of 2",
        "most like ablation: relevance 0.50, like its size: importance 0.85",
    ]
    assert "10 rows by ranking of heads: tables/belief.parquet" in "\n".join(lines)


def test_correlations():
    rows = [
        dict(model="m", measure="cka", pearson_r=-0.814, p_mantel=0.0301),
        dict(model="m", measure="dse", pearson_r=0.25, p_mantel=0.0002),
        dict(model="m", measure="rsa", pearson_r=0.1),
        dict(model="m", measure="text"),
    ]
    begun = "r of D and similarity -0.81"
    for table, said in (
        (rows, [f"{begun} (cka) to 0.25 (dse), lowest p of 2 <0.001 (dse)"]),
        (rows[:1], [f"{begun} (cka), p 0.030"]),
        (rows[3:], []),
        (
            [rows[0], rows[1] | {"model": "other"}, *rows[2:]],
            [f"{begun} (m, cka) to 0.25 (other, dse), lowest p of 2 <0.001 (other, dse)"],
        ),
    ):
        assert found(lines_of(correlation=table)) == said


@pytest.mark.parametrize(("n_seeds", "p"), [(2, "p of these runs 0.021"), (3, "p 0.043")])
def test_iat_of_every_mixture(n_seeds, p):
    iat = dict(method="iat", value=0.7234, against="tuned", difference=0.0084, ci_low=-0.001, ci_high=0.0171,
               ci_over="seeds and examples", p_holm=0.0213, p_seeds_holm=0.043)  # fmt: skip
    single = dict(method="single", value=0.7, against="tuned", difference=-0.015, ci_low=-0.02,
                  ci_high=-0.01, p_holm=0.0002)  # fmt: skip
    means = [
        {"model": "m", "mixture": mixture, "n_seeds": n_seeds} | MEAN | row
        for mixture in ("a+b", "a+c")
        for row in (iat, dict(method="tuned", value=0.715), single)
    ]
    change = dict(
        model="m", mixture="a+b", before=0.1, after=0.142, difference=0.042, ci_low=0.01, ci_high=0.07
    )
    special = [
        change | dict(ci_over="examples", at_chance=task == "mean", task=task) for task in ("z", "mean")
    ]
    improvement = [*means, *(row | dict(task="a", metric="f1") for row in means)]
    lines = lines_of(improvement=improvement, specialization=special)
    assert found(lines) == [
        f"m, a+b: mean metric after IAT 72.3 %, change 0.8 [-0.1, 1.7], {p}",
        f"m, a+c: mean metric after IAT 72.3 %, change 0.8 [-0.1, 1.7], {p}",
        "m, a+b: D after IAT 14.2 %†, change 4.2 [1.0, 7.0]",
    ]
    assert [line[11:] for line in lines[-2:]] == [
        "10 rows by method and task: tables/improvement.parquet",
        "1 rows of D before and after IAT: tables/specialization.parquet",
    ]


def test_gates_count_by_what_they_are_compared_with():
    """Means over tasks where a mixture has several, else the task's own rows."""
    base = RUN | MEAN | {"scope": "per_task", "fraction": 0.1}
    alone = base | {"mixture": "a", "method": "single", "task": "a", "metric": "f1"}
    lines = lines_of(
        budgets=[
            base | {"way": "l0", "against": "whole"} | DOWN,
            base | {"way": "l0", "against": "whole", "task": "a", "metric": "f1"} | UP,
            base | {"way": "l0", "against": "importance"} | UP,
            base | {"way": "random", "against": "importance"} | UNCLEAR,
            base | {"way": "whole", "fraction": 1.0},
            alone | {"way": "l0", "against": "whole"} | UNCLEAR,
        ]
    )
    assert found(lines) == [
        "fewer heads, against importance: the metric is lower in 0 of 2 rows (p < 0.05), higher in 1",
        "fewer heads, against whole: the metric is lower in 1 of 2 rows (p < 0.05), higher in 0",
    ]
    assert lines[-1][11:] == "6 rows by pruning method and number of heads: tables/budgets.parquet"


def test_sharing_probes_single_heads_and_contrasts():
    shared = RUN | MEAN | UP
    alone = RUN | {"mixture": "a", "method": "single", "task": "a", "metric": "f1"}
    probe = RUN | {"task": "a", "heads": "best", "label": None, "selectivity_low": 0.1}
    others = [{"task": "b", "selectivity_low": -0.1}, {"heads": "mean"}, {"label": "NOUN"}]
    change = RUN | {"task": "a", "heads": "best", "label": None, "change": 0.1}
    head = RUN | {"task": "a", "measure": "ablation", "layer": 0, "change": -0.1}
    roles = enumerate(["positional", "none", "none"])
    across = {"model": "m", "contrast": "paradigms", "method": "tuned", "mixture": "across paradigms",
              "against": "within paradigms", "dissociation": 0.1, "difference": 0.02}  # fmt: skip
    lines = lines_of(
        contrasts=[across | {"n_mixtures": 4}],
        sharing=[shared, shared | {"task": "a", "metric": "f1", "difference": -1.0}, alone],
        probes=[probe | each for each in ({}, *others)],
        probe_changes=[
            change | {"before": "pretrained", "p_seeds_holm": 0.01},
            change | {"before": "random", "p_holm": 0.01, "n_seeds": 2},
        ],
        single_heads=[head | {"head": i, "p_holm": 0.0, "p_seeds_holm": 0.03 * i} for i in range(4)],
        head_roles=[RUN | {"seed": 0, "layer": 0, "head": i, "role": role} for i, role in roles],
    )
    assert found(lines) == [
        "m, tuned: mean D of pairs across paradigms 10.0 %, difference from pairs within paradigms 2.0",
        "single heads, ablation: the metric is lower in 2 of 4 rows (p < 0.05), higher in 0",
        "roles of heads: 2 none, 1 positional",
        "tasks together, against each alone: the mean metric is lower in 0 of 1 mixtures (p < 0.05), higher "
        "in 1",
        "selectivity of the best heads: interval above 0 in 1 of 2 probes",
        "what the best heads know, against pretrained: lower in 0 of 1 probes (p < 0.05), higher in 1",
        "what the best heads know, against random: lower in 0 of 1 probes (p of these runs < 0.05), higher "
        "in 1",
    ]


# --- of results


def begun(results: Path, study: str = "tiny", options: tuple[str, ...] = ()) -> None:
    """Results of a study that was begun in their folder, with one table."""
    path = results / "tables" / "sharing.parquet"
    tables.write(path, SCHEMAS["sharing"], frame("sharing", [RUN | MEAN | DOWN]), {"study": study})
    state.note_start(results, {"study": study}, ["snakemake", *options], ["all"])


def test_results_that_were_renamed_are_taken_as_they_are(tmp_path):
    """Their config is of another place, in which nobody has to be asked."""
    for place in ("results/renamed", "elsewhere/tiny"):
        begun(tmp_path / place)
        said, finished = summary.summarize(tmp_path / place)
        assert finished and "found      tasks together" in said


DAMAGED_CONFIGS: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda whole: whole[:-2] + bytes([whole[-2] ^ 0x80]) + whole[-1:],
    "a quote in the command": lambda whole: whole.replace(b"--cores", b"'--cores", 1),
    "broken YAML": lambda whole: whole.replace(b"tiny", b"tiny: [", 1),
    "a list": lambda whole: whole.split(b"\n")[0] + b"\n- tiny\n",
    "cut off": lambda whole: b"",
}


@pytest.mark.parametrize("damage", DAMAGED_CONFIGS.values(), ids=DAMAGED_CONFIGS)
def test_a_damaged_config_of_results_is_told_and_written_again(tmp_path, damage):
    results = tmp_path / "results" / "tiny"
    begun(results)
    config = results / "config.yaml"
    whole = config.read_bytes()
    config.write_bytes(damage(whole))
    again = results, {"study": "tiny"}, ["snakemake"], ["all"]
    told = f"{config}: damaged or edited since an earlier start, and written again"
    assert state.note_start(*again) == told and config.read_bytes() == whole
    assert state.note_start(*again) == ""


@pytest.mark.parametrize("kind", ["of another user", "of another folder", "damaged"])
def test_results_from_elsewhere_run_nothing_unless_they_are_trusted(tmp_path, monkeypatch, kind):
    """Neither the Snakefile beside them, nor options in the first line of their config."""
    results, ran = tmp_path / "results" / "tiny", tmp_path / "ran"
    there = tmp_path / "there" / "results" / "tiny" if kind == "of another folder" else results
    with monkeypatch.context() as other:
        if kind == "of another user":
            other.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        begun(there)
    if there != results:
        shutil.copytree(there, results)
    config = results / "config.yaml"
    if kind == "damaged":
        config.write_bytes(config.read_bytes().replace(b"tiny", b"tiny: \xff'["))
    else:
        options = f"--cores all --snakefile {tmp_path}/other.smk"
        config.write_text(config.read_text().replace("--cores all", options))
    for name in ("Snakefile", "other.smk"):
        (tmp_path / name).write_text(f"open({str(ran)!r}, 'a').write({name!r})\nrule all:\n    input: []\n")
    (tmp_path / "yaml.py").write_text("raise SystemExit")  # in the place of a package that Snakemake imports
    said, finished = summary.summarize(results)
    assert finished and "another user, machine or folder began the study" in said.replace("\n", " ")
    assert "sharing.parquet" in said and not ran.exists()
    with pytest.raises(HeadspecError, match="that you have begun in this folder"):
        run_job(results / "tables" / "sharing.parquet")
    write_explorer(results)
    assert not ran.exists()
    if kind == "damaged":
        with pytest.raises(HeadspecError, match="config.yaml: expected the config of a start"):
            summary.summarize(results, trust=True)
    else:
        summary.summarize(results, trust=True)
        assert ran.read_text() == "Snakefile"


#: code of a folder with a study that has plugins
CODE = (
    "Snakefile", "workflow/Snakefile", "workflow/rules/heads.smk", "workflow/headspec/tables.py",
    "profiles/default/config.yaml", ".snakemake/headspec/0a1b/workflow/headspec/tables.py", "mine.py",
    "parts/own/kind.py",
)  # fmt: skip
#: what else is there
OTHERS = (
    "texts/topic.tsv",
    "results/other/tables.py",
    ".venv/x.py",
    "workflow/__pycache__/x.pyc",
    "README.md",
)


@settings(max_examples=settings().max_examples // 4)
@given(st.sampled_from(CODE), st.sampled_from(["edited", "added", "removed"]), st.booleans())
def test_results_beside_other_code_run_nothing(tmp_path_factory, name, change, edit_others):
    """Such as a clone that is unpacked over the folder of one's own study, whose config is the same."""
    root = tmp_path_factory.mktemp("study")
    results, ran = root / "results" / "tiny", root / "ran"
    for each in (*CODE, *OTHERS):
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        if each != name or change != "added":
            (root / each).write_text("rule all:\n    input: []\n" if "Snakefile" in each else "a = 1\n")
    config = {"study": "tiny", "plugins": ["mine.py"]}
    state.note_start(results, config, ["snakemake"], ["all"])
    for each in OTHERS if edit_others else ():
        (root / each).write_text("b = 1\n")
    assert state.last_start(results)
    code = f"open({str(ran)!r}, 'a')\n"
    (root / name).unlink() if change == "removed" else (root / name).write_text(code)
    assert state.last_start(results) is None
    assert state.select(results, [results / "config.yaml"]).left_out.endswith("which both run this code")
    assert state.last_start(results, trust=True) and state.last_start(results, running=True)
    assert not ran.exists()
    assert state.note_start(results, config, ["snakemake"], ["all"]) == ""
    assert state.last_start(results)


@pytest.mark.parametrize("column", ["unpruned_at_chance", "p_seeds_holm"])
def test_tables_of_an_older_headspec_are_refused(tmp_path, column):
    path = tmp_path / "tables" / "combined.parquet"
    tables.write(path, SCHEMAS["combined"], dissociation(), {})
    tables.save(path, pq.read_table(path).drop_columns(column))
    message = f"combined.parquet: no column '{column}'.*; run snakemake again"
    with pytest.raises(HeadspecError, match=message):
        summary.summarize(tmp_path)
