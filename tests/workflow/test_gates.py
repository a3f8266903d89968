"""Snakemake on the gates of a tiny study: results, effects of changes, errors before any job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support.edits import constant
from support.studies import CONFIG, HEADS, LAYERS, Folder

pytestmark = pytest.mark.slow

WAYS = ["importance", "rescored", "l0", "subset", "dynamic", "fresh", "ablation"]
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "methods": ["tuned", "gates"],
    "mixtures": {"pairs": ["tone", "topic"]},
    "training": CONFIG["training"] | {"epochs": 1},
    "figures": {"dpi": 60, "formats": ["png"]},
    "atlas": {"examples": 40, "draws": 2},
    "gates": {"ways": WAYS, "sets": ["shared", "own"], "kept": [0.25, 0.5], "epochs": 2, "penalty": 0.05},
}
SETS = 2
#: budgets of a run: whole, two of every way, and the open heads of two ways
BUDGETS = 1 + 2 * len(WAYS) + 2


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        folder.write(STUDY)
        folder.snakemake("gates")

    return Folder(shared("gates", fill))


@pytest.fixture
def copy(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "copy")


def of_run(study: Folder, way: str, sets: str, kept: str, name: str) -> pd.DataFrame:
    return pd.read_parquet(
        study.results / "runs/bert/tone+topic/tuned/seed0/gates" / way / sets / kept / f"{name}.parquet"
    )


def test_every_budget_keeps_its_number_of_heads(finished):
    for way in WAYS:
        for sets, tasks in (("shared", {"all"}), ("own", {"tone", "topic"})):
            for kept, number in (("0.25", 2), ("0.5", 4)):
                gates = of_run(finished, way, sets, kept, "gates")
                last = gates[gates["step"] == gates["step"].max()]
                assert {*last["task"].fillna("all")} == tasks
                assert len(last) == len(tasks) * LAYERS * HEADS
                assert last["kept"].sum() == number * len(tasks), (way, sets, kept)
    assert of_run(finished, "whole", "shared", "1", "gates")["kept"].all()


def test_gates_of_a_run_are_recorded_while_they_learn(finished):
    learnt, at_once = (of_run(finished, way, "shared", "0.5", "gates") for way in ("l0", "importance"))
    assert learnt["step"].nunique() > 5 and learnt["open_probability"].between(0, 1).all()
    assert at_once["step"].nunique() == 1 and at_once["open_probability"].isna().all()
    assert learnt["step"].max() == at_once["step"].max()
    kept = [of_run(finished, "l0", "shared", k, "gates") for k in ("0.25", "0.5")]
    first, second = (frame[frame["step"] == frame["step"].max()] for frame in kept)
    assert not (first["kept"].to_numpy() & ~second["kept"].to_numpy()).any()  # gates learnt once
    assert first["open_probability"].to_numpy().tolist() == second["open_probability"].to_numpy().tolist()


def test_examples_that_rank_heads_do_not_judge_them(finished):
    plain, ranked = (of_run(finished, way, "shared", "0.5", "evaluation") for way in ("subset", "ablation"))
    heads = pd.read_parquet(
        finished.results / "runs/bert/tone+topic/tuned/seed0/atlas/ablation.parquet"
    ).query("measure == 'ablation'")
    for task, of_task in plain.groupby("task"):
        rest = ranked[ranked["task"] == task]
        half = heads.query("task == @task and fold % 2 == 0 and layer == 0 and head == 0")["n"].sum()
        assert len(of_task) - len(rest) == half == 20
        assert {*rest["example"]} < {*of_task["example"]}


def test_heads_from_fresh_weights_are_those_of_the_source(finished):
    source, fresh = (of_run(finished, way, "own", "0.5", "gates") for way in ("subset", "fresh"))
    last = source[source["step"] == source["step"].max()]
    assert fresh["kept"].tolist() == last["kept"].tolist()


def budgets(study: Folder, *targets: str) -> dict[str, int]:
    """The jobs that would run, but for statistics and figures."""
    rules = study.plan(*(targets or ("gates",))).rules
    return {
        rule: n for rule, n in rules.items()
        if rule in ("train", "importance", "ablation", "learn_gates", "budget")
    }  # fmt: skip


def test_nothing_is_left_to_do(finished):
    assert finished.plan("gates").rules == {}


OPEN_ENDED = 2  # l0, dynamic
#: edit: budgets of each run, and open-ended ways whose gates learn again
EDITS = {
    "gates.penalty": (0.04, 3 * OPEN_ENDED, OPEN_ENDED),
    "gates.rescorings": (3, 2, 0),
    "gates.learning_rate": (0.2, 3 * OPEN_ENDED + 2 + 2, OPEN_ENDED),  # fresh takes the heads of subset
    "gates.kept": ([0.25, 0.5, 0.75], len(WAYS), 0),
    "gates.epochs": (3, BUDGETS, OPEN_ENDED),
    "gates.source": ("l0", 2, 0),
}


@pytest.mark.parametrize("key", EDITS)
def test_an_edit_reaches_the_budgets_that_use_it(copy, key):
    value, of_run, learnt = EDITS[key]
    copy.set(key, value)
    expected = {"budget": SETS * of_run} | ({"learn_gates": SETS * learnt} if learnt else {})
    assert budgets(copy) == expected


@pytest.mark.parametrize(
    ("module", "rules"),
    [
        ("headspec/training/gated.py", {"budget", "learn_gates"}),
        ("headspec/gates/subset.py", {"budget", "learn_gates"}),
        ("headspec/config/ways.py", set()),
        ("headspec/atlas/ablation.py", {"ablation", "budget"}),
    ],
)
def test_an_edited_module_reaches_the_stages_that_import_it(copy, module, rules):
    constant(module)(copy)
    assert {*budgets(copy)} == rules


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("gates.ways", ["subsets"], "gates.ways.0: got 'subsets'"),
        ("gates.kept", [1.0], "gates.kept.0"),
        ("gates.kept", [0.99], "gates.kept.0: got 0.99, all of the 2 x 4 heads of models.bert"),
        ("gates.kept", [0], "gates.kept.0"),
        ("gates.mixtures", ["tone+topik"], "gates.mixtures.0: no mixture 'tone+topik'"),
        ("gates.penalty", 0, "gates.penalty"),
        ("gates.source", "random", "gates.source: got 'random'"),
        ("methods", ["gates"], "methods: got gates, expected tuned as well"),
    ],
)
def test_mistakes_are_refused_before_any_job(copy, key, value, message):
    copy.set(key, value)
    output = copy.snakemake("gates", fails=True)
    assert message in output and "started" not in output


def test_a_source_that_nothing_uses_is_refused(copy):
    copy.set("gates.ways", ["importance"])
    copy.set("gates.source", "l0")
    assert "gates.source: not used; expected" in copy.snakemake("gates", fails=True)
